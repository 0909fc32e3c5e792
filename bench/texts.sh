#!/usr/bin/env bash
# Writes the texts of bench/recipes/language.json that are parts of those in ../shared/data, to build/texts: the halves
# of TinyStories' text.
#
# usage: bench/texts.sh [DIRECTORY]
set -euo pipefail
source "$(dirname "$0")/cells.sh"
output=${1-$root/build/texts}
mkdir -p "$output"
halve "$data/text/tinystories.txt"
mv "$work/first.txt" "$output/stories.txt"
mv "$work/second.txt" "$output/other-half.txt"
