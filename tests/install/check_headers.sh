#!/usr/bin/env bash
# Compiles every public header alone, without warnings.
#
# usage: check_headers.sh STANDARD INCLUDE_DIRECTORY COMPILER
set -euo pipefail

standard=$1 include=$2 compiler=$3
language=c
[[ $standard == c++* ]] && language=c++
if ! command -v "$compiler" >/dev/null; then
    echo "SKIP: no compiler for $standard"
    exit 77
fi
count=0
failed=0
for header in "$include"/*/*.h; do
    name=${header#"$include/"}
    count=$((count + 1))
    if ! "$compiler" -x "$language" "-std=$standard" -Wall -Wextra -Wpedantic -Werror -I "$include" \
        -fsyntax-only - <<<"#include <$name>"$'\nextern int something;'; then
        echo "FAIL: <$name> as $standard"
        failed=$((failed + 1))
    fi
done
echo "$count headers as $standard, $failed do not compile"
((count > 0 && failed == 0))
