#!/usr/bin/env bash
# Writes the texts of bench/recipes that are parts of those in ../shared/data, to build/texts: the halves of TinyStories'
# text (stories, other-half), and its first half mixed with lines of Penn Treebank, so that a quarter or a half of the
# bytes are of its validation part (quarter-PTB, half-PTB).
#
# usage: bench/texts.sh [DIRECTORY]
set -euo pipefail
export LC_ALL=C
root=$(cd "$(dirname "$0")/.." && pwd)
data=${GRAIL_SHARED_DATA:-$root/../shared/data}
output=${1-$root/build/texts}

# A text of which the given share of the bytes comes from the lines of another; OTHER is shortened, then TEXT is.
mix() { # TEXT OTHER SHARE OUTPUT
    local size other
    size=$(wc -c <"$1")
    other=$(wc -c <"$2")
    awk -v whole="$(awk -v s="$size" -v o="$other" -v f="$3" 'BEGIN { w = s; if (w * f > o) w = o / f; print w }')" \
        -v share="$3" -v first="$1" '
        { room = whole * (FILENAME == first ? 1 - share : share) }
        (taken[FILENAME] += length($0) + 1) <= room' "$1" "$2" >"$4"
}

mkdir -p "$output"
whole=$data/text/tinystories.txt
lines=$(wc -l <"$whole")
head -n $((lines / 2)) "$whole" >"$output/stories.txt"
tail -n +$((lines / 2 + 1)) "$whole" >"$output/other-half.txt"
mix "$output/stories.txt" "$data/text/ptb-valid.txt" 0.25 "$output/quarter-PTB.txt"
mix "$output/stories.txt" "$data/text/ptb-valid.txt" 0.5 "$output/half-PTB.txt"
