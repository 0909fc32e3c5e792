#!/usr/bin/env bash
# What the documents promise that can be typed: the examples of every command's help and the first ones of
# README.md work in the directory of the source.
#
# usage: test_examples.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip "python3 is not installed"
# The demonstration with short texts: that the commands work is looked at, not what they gain.
mkdir demo
ln -s "$demo"/* demo
for text in calibration held-out; do
    rm demo/$text.txt
    head -c 30000 "$demo/$text.txt" >demo/$text.txt
done
ln -s "$source_dir/bench" "$source_dir/tests" .

# works LINE: a command line of the documents
works() {
    echo "   $1"
    (eval "grail() { '$grail' \"\$@\"; }; $1") >stdout 2>stderr </dev/null || { show; fail "does not work: $1"; }
}

check "the first examples of README.md"
mkdir -p build/release/bin
ln -s "$grail" build/release/bin/grail
awk 'sub(/^    \$ /, "") { seen = 1; print; next } seen && !/^    / { exit }' "$source_dir/README.md" >lines
[[ $(head -n 1 lines) == build/release/bin/grail\ compress* ]] || fail "README.md begins with $(head -n 1 lines)"
while read -r line; do
    works "$line"
done <lines
rm -r narrow

for command in inspect plan gram compress heal eval verify generate export quantize doctor completion; do
    check "the examples of grail $command --help"
    runs "$grail" "$command" --help
    sed -n '/^examples:$/,$ s/^  //p' stdout >lines
    (($(wc -l <lines) > 0)) || fail "it has none"
    while read -r line; do
        works "${line/--heal-time 20s/--heal-time 2s}"
    done <lines
done
