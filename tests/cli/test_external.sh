#!/usr/bin/env bash
# Commands that are programs of their own: grail NAME runs grail-NAME of PATH.
#
# usage: test_external.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

# program DIRECTORY NAME LINES: a script there
program() {
    mkdir -p "$1"
    printf '#!/bin/sh\n%s\n' "$3" >"$1/$2"
    chmod +x "$1/$2"
}
program first grail-extra 'echo "$0: $#: $*"; cat; echo told >&2; exit 7'
program first grail-inspect 'echo another inspect'
program first grail-broken ''
printf 'no program' >first/grail-broken
program second grail-broken 'echo second'
program second grail-sleep 'kill -s TERM $$'
mkdir first/grail-folder
program relative grail-near 'echo run'
touch first/grail-plain
export PATH=$PWD/first:relative::$PWD/second:$PATH

check "arguments, input, output and exit code are those of the program"
run "$grail" extra 'a b' --help '' <<<input
((code == 7)) || { show; fail "exit code $code"; }
[[ $(<stdout) == "$PWD/first/grail-extra: 3: a b --help "$'\n'input && $(<stderr) == told ]] || { show; fail "other words"; }

check "help of a command is asked of its program"
run "$grail" help extra </dev/null
((code == 7)) && says "grail-extra: 1: --help" stdout

check "a program that cannot be run is passed over, and a signal ends it"
runs "$grail" broken
[[ $(<stdout) == second ]] || { show; fail "the second directory"; }
run "$grail" sleep
((code == 143)) || fail "exit code $code"

check "what is built in stays, and a relative directory of PATH is not searched"
refuses 1 "is neither a model" "$grail" inspect none-at-all
cd relative
for name in near folder plain ../second/grail-broken Extra -extra ''; do
    refuses 2 "unknown command '$name'" "$grail" "$name"
done
cd ..

check "a command of the package for Python names the package"
export PATH=/usr/bin:/bin
for name in sweep report; do
    command -v "grail-$name" >/dev/null ||
        refuses 2 "'$name' is a command of the package for Python, and no directory of PATH has grail-$name; install it with: pip install grail-compress" \
            "$grail" "$name" recipe.json -o out
done
