#!/usr/bin/env bash
# Packs grail with the shared libraries that it needs, all but those of the C library, for a machine that lacks them:
# gpu_shapes.py takes the folder that it unpacks to, --grail DIRECTORY/grail --libraries DIRECTORY.
# Usage: bench/gpu_pack.sh GRAIL FILE.tar.xz
set -euo pipefail
if (($# != 2)); then
    sed -n '4s/^# Usage: //p' "$0" >&2
    exit 2
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -L "$1" "$work/grail"
ldd "$1" | awk '$2 == "=>" && $3 ~ /^\// && $1 !~ /^lib(c|m|pthread|dl|rt)\.so/ { print $1, $3 }' |
    while read -r name path; do
        cp -L "$path" "$work/$name"
    done
strip --strip-unneeded "$work"/*
tar -C "$work" -cf - . | xz -T2 -3 >"$2"
