#!/usr/bin/env bash
# Runs every command in a directory that holds a library of every name that the program loads or looks for.
# None of them may be loaded: nobody who runs grail beside a downloaded checkpoint means to run its files. Nor may
# the program start another file than its own.
#
# usage: check_libraries.sh PROGRAM SOURCE_DIRECTORY CC
set -euo pipefail

program=$(realpath -- "$1") source=$(realpath -- "$2") cc=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mark=$work/mark
export OMP_WAIT_POLICY=passive
unset LD_LIBRARY_PATH LD_PRELOAD

fail() {
    echo "FAIL: $*" >&2
    exit 1
}

# unmarked WHAT: no hostile library was loaded since the last call
unmarked() {
    [[ ! -e $mark ]] || fail "$1 loads $(sort -u "$mark" | tr '\n' ' ')from the working directory"
}

# The name under which the library was loaded goes into the mark.
cat >"$work/hostile.c" <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
__attribute__((constructor)) static void leave_mark(void)
{
    Dl_info self;
    FILE *mark = fopen(MARK, "a");
    if (mark != NULL && dladdr((void *)leave_mark, &self) != 0) {
        fprintf(mark, "%s\n", self.dli_fname);
        fclose(mark);
    }
}
END
"$cc" -shared -fPIC -DMARK="\"$mark\"" "$work/hostile.c" -o "$work/hostile.so"
mapfile -t names < <(ldd "$program" | awk '{print $1}' | grep '^lib' |
    grep -vE '^lib(c|dl|pthread|m|gcc_s|asan|ubsan)\.so')
mkdir "$work/hostile"
cd "$work/hostile"
for name in "${names[@]}"; do
    cp "$work/hostile.so" "$name"
done
(("${#names[@]}" > 8)) || fail "ldd names only ${#names[@]} libraries of $program"
# A program that binds all symbols at its start stops before constructors run.
if LD_LIBRARY_PATH=. "$program" --version >/dev/null 2>&1 && [[ ! -e $mark ]]; then
    fail "the hostile libraries leave no mark where they are loaded"
fi
rm -f "$mark"

dense=$source/demo/vision/cnn.pth
calibration=$source/demo/vision/calibration
narrow=$work/narrow
declare -A arguments=(
    [inspect]="$dense"
    [plan]="$dense -o $work/plan.json --calib $calibration --target-ratio 0.7 --budget error --samples 64"
    [compress]="$dense -o $narrow --calib $calibration --sparsity 0.5 --samples 8 --quiet"
    [heal]="$narrow --teacher $dense -o $work/healed --calib $calibration --samples 8 --heal-steps 1 --quiet"
    [eval]="$narrow --data $source/demo/vision/test"
    [verify]="$dense $narrow"
    [export]="$narrow -o $work/narrow.onnx"
    [doctor]=
    [completion]=bash
)
"$program" --version >"$work/said" 2>&1 || fail "grail --version: $(tail -n 1 "$work/said")"
unmarked "grail --version"
mapfile -t commands < <("$program" --help | sed -n 's/^  \([a-z]\{1,\}\) .*/\1/p')
(("${#commands[@]}" > 10)) || fail "grail --help lists ${#commands[@]} commands"
printf '#!/bin/sh\necho a command >>%q\n' "$mark" >grail-sweep
chmod +x grail-sweep
if PATH=.::$PATH "$program" sweep >"$work/said" 2>&1; then fail "grail sweep runs ./grail-sweep"; fi
unmarked "grail sweep"
for command in "${commands[@]}"; do
    read -ra given <<<"${arguments[$command]---help}"
    PATH=.::$PATH "$program" "$command" "${given[@]}" >"$work/said" 2>&1 || fail "grail $command: $(tail -n 1 "$work/said")"
    unmarked "grail $command"
done

# Linux calls a program without a file by its old path and " (deleted)", which anyone may give to a file.
prefix=$work/moved
mkdir -p "$prefix/bin"
cp "$program" "$prefix/bin/g"
cp -r "$(dirname "$program")/../lib" "$prefix/lib"
printf '#!/bin/sh\necho another file >>%q\n' "$mark" >"$prefix/bin/g (deleted)"
chmod +x "$prefix/bin/g (deleted)"
env -u OMP_WAIT_POLICY "$prefix/bin/g" completion bash >/dev/null
exec 3<"$prefix/bin/g"
rm "$prefix/bin/g"
env -u OMP_WAIT_POLICY /proc/self/fd/3 doctor >"$work/said" 2>&1 || fail "a deleted program: $(tail -n 1 "$work/said")"
[[ ! -e $mark ]] || fail "runs 'g (deleted)' instead of itself"
echo "${#commands[@]} commands of $program beside ${#names[@]} hostile libraries"
