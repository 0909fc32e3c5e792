#!/usr/bin/env bash
# A disk that is too small, and a limit on the size of files: the message names the file and the
# reason, nothing is left that could be taken for a result, and with more room --resume finishes.
#
# usage: test_disk_full.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

write_ids ids.npy 16 16 96
compress=("$grail" compress "$golden/llama3" --calib "$work/ids.npy" --sparsity 0.5 --align 1)
runs "${compress[@]}" -o complete

limited() {
    (ulimit -f "$1" && shift && exec "$@")
}

check "a file may not be as large as the weights: refused when the output is laid out"
refuses_clean 1 "'out.partial/result/model.safetensors': File too large" limited 100 "${compress[@]}" -o out --quiet
runs "${compress[@]}" -o out --resume
same_result complete out
rm -r out

check "a full standard output is an error, but the result is there"
run bash -c '"$@" >/dev/full' - "${compress[@]}" -o out --quiet
((code == 1)) || fail "exit code $code"
says "cannot write to standard output: No space left on device" stderr
same_result complete out
rm -r out
run bash -c '"$@" >/dev/full' - "$grail" inspect "$golden/llama3" --json
((code == 1)) || fail "exit code $code"
says "cannot write to standard output" stderr

mkdir disk
mount -t tmpfs -o size=64k grail-test disk 2>/dev/null || skip "may not mount a small disk here"
trap 'cd / && umount "$work/disk"; clean_up' EXIT
cd disk

# Every size of disk from none to enough: each stage of a run meets the end of the disk.
stages=
for ((size = 64;; size += 4)); do
    find . -mindepth 1 -delete
    mount -o "remount,size=${size}k" .
    # what the run says lies on the other disk
    code=0
    "${compress[@]}" -o out --quiet >/dev/null 2>../stderr || code=$?
    ((code != 0)) || break
    ((size < 4096)) || fail "no run finished within 4 MB"
    told=$(grep -o "'out.partial/[^']*': No space left on device" ../stderr) || {
        cat ../stderr >&2
        fail "the message names no file at ${size}k"
    }
    [[ $stages == *"$told"* ]] || {
        stages+=$told$'\n'
        check "disk full: ${told%: *}"
        sed 's/^/   /' ../stderr
    }
    ((code == 1)) && (cd .. && is_one_line) || fail "exit code $code, or more than a line"
    [[ ! -e out ]] || fail "a failed run left an output at ${size}k"
    if [[ -e out.partial ]]; then
        grep -q "of 2 blocks are finished in 'out.partial', and the run can be resumed (--resume)" ../stderr ||
            grep -q "all weights are written in 'out.partial', and the run can be resumed (--resume)" ../stderr ||
            fail "out.partial is left without a word at ${size}k"
    else
        ! grep -q resume ../stderr || fail "names --resume with nothing to continue at ${size}k"
    fi
    mount -o remount,size=4m .
    "${compress[@]}" -o out --quiet --resume >/dev/null
    same_result ../complete out
done
(($(grep -c . <<<"$stages") >= 3)) || fail "the disk was full in too few places: $stages"
