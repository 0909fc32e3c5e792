#!/usr/bin/env bash
# Checks what the libraries export (grail_* alone, each function by one of them) and that their objects
# call nothing that prints, ends the process or draws from a hidden state. The objects are looked at
# rather than the libraries, which also hold what instrumentation brings along.
#
# usage: check_symbols.sh NM LIBRARY... -- ARCHIVE...
set -euo pipefail

nm=$1
shift
exported=
while [[ $1 != -- ]]; do
    names=$("$nm" -D --defined-only "$1" | awk '{print $NF}' | sed 's/@.*//' | sort -u)
    [[ $names == *grail_* ]] || { echo "FAIL: $1 exports nothing"; exit 1; }
    exported+=$names$'\n'
    shift
done
shift
banned='exit|_exit|_Exit|quick_exit|abort|raise|printf|__printf_chk|vprintf|__vprintf_chk|fprintf'
banned+='|__fprintf_chk|vfprintf|__vfprintf_chk|puts|fputs|putchar|putc|fputc|fwrite|perror|psignal'
banned+='|system|popen|rand|srand|__assert_fail'
failed=0
(($# > 0)) || { echo "FAIL: no objects are looked at"; exit 1; }

foreign=$(grep -Ev '^(grail_|_init$|_fini$|_edata$|_end$|__bss_start$|__odr_asan|$)' <<<"$exported" || true)
if [[ -n $foreign ]]; then
    echo "FAIL: exported besides grail_*:"
    echo "$foreign"
    failed=1
fi
twice=$(grep '^grail_' <<<"$exported" | sort | uniq -d)
if [[ -n $twice ]]; then
    echo "FAIL: exported by two libraries:"
    echo "$twice"
    failed=1
fi
count=$(grep -c '^grail_' <<<"$exported")

called=$("$nm" --undefined-only --no-sort "$@" 2>/dev/null | awk 'NF == 2 {print $2}' | sort -u)
used=$(grep -Ex "$banned" <<<"$called" || true)
if [[ -n $used ]]; then
    echo "FAIL: the library calls:"
    echo "$used"
    failed=1
fi
echo "$count functions exported, $(wc -l <<<"$called") different symbols called"
((failed == 0 && count > 0))
