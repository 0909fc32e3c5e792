#!/usr/bin/env bash
# File systems that lack what grail asks of them, fail in their own ways, or hold strange entries: a
# run makes the same files there, or says in one line why it cannot, and nothing is lost.
#
# usage: test_file_systems.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

# strace and the leak checker exclude each other
export ASAN_OPTIONS=detect_leaks=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}

write_ids ids.npy 16 16 96
compress=("$grail" compress "$golden/llama3" --calib "$work/ids.npy" --sparsity 0.5 --align 1 --quiet)
runs "${compress[@]}" -o complete

check "names as long as a file system allows, and longer"
long=$(printf 'n%.0s' {1..247})
runs "${compress[@]}" -o "$long"
same_result complete "$long"
rm -r "$long"
refuses 1 "File name too long" "${compress[@]}" -o "${long}n"
[[ $(ls) == complete?ids.npy?std* ]] || fail "something was left: $(ls)"

check "an output behind a link to its directory, and with slashes at its end"
mkdir real
ln -s real linked
runs "${compress[@]}" -o linked/out//
same_result complete real/out
rm -r real linked

check "a directory that is not there"
refuses_clean 1 "cannot find the output's parent directory 'missing': No such file or directory" "${compress[@]}" -o missing/out

check "a dangling link where the output, or its partial directory, should be"
for name in out out.partial; do
    ln -s nowhere $name
    run "${compress[@]}" -o out
    ((code == 1)) || { show; fail "exit code $code"; }
    sed 's/^/   /' stderr
    [[ -L $name && ! -e nowhere ]] || fail "the link was followed or replaced"
    rm $name
done

check "a pipe or a file where the partial directory should be"
mkfifo out.partial
refuses 1 "'out.partial' is not a directory" "${compress[@]}" -o out
rm out.partial
echo mine >out.partial
refuses 1 "'out.partial' is not a directory" "${compress[@]}" -o out --resume
[[ $(cat out.partial) == mine ]] || fail "the file was changed"
rm out.partial

# with_calls EXPRESSION...: the run, with system calls that end as strace's expressions say
with_calls() {
    local options=() expression
    for expression; do
        options+=(-e "inject=$expression")
    done
    run strace -f -qq -o trace "${options[@]}" "${compress[@]}" -o out
    grep -q INJECTED trace || fail "no call was met by $*"
}

if command -v strace >/dev/null && strace -qq -o /dev/null true 2>/dev/null; then
    strace -f -qq -o calls -e trace=fcntl,openat,pread64 "${compress[@]}" -o out >/dev/null
    rm -r out
    lock=$(grep fcntl calls | grep -n -m 1 SETLK | cut -d: -f1)
    opened=$(grep -c openat calls) # the first ones are the loader's
    read=$(grep -c pread64 calls)
    for lack in "fcntl:error=ENOLCK:when=$lock" "fcntl:error=EOPNOTSUPP:when=$lock" "renameat2:error=EINVAL" \
        "renameat2:error=ENOSYS" "fallocate:error=EOPNOTSUPP" "fsync:error=EINVAL" \
        "fsync:error=EINTR:when=1+3" "pwrite64:error=EINTR:when=1+2" "pread64:error=EINTR:when=$read" \
        "openat:error=EINTR:when=$((opened - 8))+2" "rmdir:error=ENOTEMPTY" "unlinkat:error=ENOENT"; do
        check "without what it needs: $lack"
        with_calls "$lack"
        ((code == 0)) || { show; fail "exit code $code"; }
        same_result complete out
        rm -rf out out.partial
    done

    check "a file system without files that have no name, and a run that was killed there"
    runs "$grail" gram "$golden/llama3" --calib ids.npy --quiet -o counted
    gram=("$grail" gram counted --add counted --quiet)
    runs "${gram[@]}" -o statistics
    strace -f -qq -P . -e trace=openat -o calls "${gram[@]}" -o other >/dev/null 2>&1
    nameless=$(grep -n O_TMPFILE calls | head -n 1 | cut -d: -f1)
    without=(-e inject="openat:error=EOPNOTSUPP:when=$nameless" -P .)
    run strace -f -qq -o trace "${without[@]}" "${gram[@]}" -o named
    ((code == 0)) || { show; fail "exit code $code"; }
    grep -q 'O_TMPFILE.*INJECTED' trace || fail "there was a file without a name"
    cmp -s statistics named || fail "other statistics"
    touch .grail-0123456789abcdef.tmp .grail-mine.tmp
    runs "${gram[@]}" -o again
    [[ $(ls -A) != *0123456789abcdef* && -e .grail-mine.tmp ]] || fail "what was left is there, or another file is gone"
    rm counted statistics other named again calls .grail-mine.tmp

    check "a result is not replaced where a rename cannot promise that"
    mkdir out
    run strace -f -qq -o trace -e inject=renameat2:error=EINVAL "${compress[@]}" -o out
    ((code == 1)) || fail "exit code $code"
    says "'out' exists already" stderr
    [[ -z $(ls -A out) ]] || fail "wrote into it"
    rmdir out

    for failure in "openat:error=EROFS:when=" "mkdirat:error=EROFS:when=" "mkdir:error=EACCES:when=" \
        "fsync:error=EDQUOT:when=" "pwrite64:error=EDQUOT:when=" "renameat2:error=EXDEV:when=" \
        "newfstatat:error=ESTALE:when=" "fallocate:error=EFBIG:when="; do
        check "an error of a network or an overlay: ${failure%:when=}"
        call=${failure%%:*}
        strace -f -qq -c -o counts "${compress[@]}" -o counted >/dev/null
        rm -r counted
        calls=$(awk -v name="$call" '$NF == name { print $4 }' counts)
        # the first calls are the loader's
        for ((n = calls; n > 0 && n > calls - 24; n -= 1 + calls / 12)); do
            with_calls "$failure$n"
            if ((code == 0)); then
                same_result complete out
                rm -r out
                continue
            fi
            ((code == 1 || code == 127)) || { show; fail "exit code $code at call $n"; }
            [[ $code == 127 ]] || is_one_line || { show; fail "not one line at call $n"; }
            if [[ ! -e out && -e out.partial ]]; then
                runs "${compress[@]}" -o out --resume
            elif [[ ! -e out ]]; then
                runs "${compress[@]}" -o out
            elif [[ -e out.partial/grail-state.jsonl ]]; then
                runs "${compress[@]}" -o out --resume
            fi
            same_result complete out
            rm -rf out out.partial
        done
    done
fi

mkdir disk
mount -t tmpfs -o size=4m,nr_inodes=2 grail-test disk 2>/dev/null ||
    skip "the rest: may not mount a file system here"
trap 'cd / && umount "$work/disk"; clean_up' EXIT

check "a file system without room for more files"
for ((inodes = 2;; inodes++)); do
    mount -o "remount,nr_inodes=$inodes" disk
    code=0
    "${compress[@]}" -o disk/out >stdout 2>stderr || code=$?
    ((code != 0)) || break
    ((inodes < 64)) || fail "no run finished with $inodes files"
    sed "s/^/   $inodes: /" stderr
    ((code == 1)) || fail "exit code $code with $inodes files"
    says "No space left on device" stderr
    mount -o remount,nr_inodes=64 disk
    if [[ -e disk/out.partial ]]; then
        runs "${compress[@]}" -o disk/out --resume
    else
        runs "${compress[@]}" -o disk/out
    fi
    same_result complete disk/out
    rm -r disk/out
done
((inodes > 6)) || fail "only $inodes files were needed"

check "a file system that is mounted read-only"
rm -r disk/out
mount -o remount,ro disk
refuses 1 "/disk': Read-only file system" "${compress[@]}" -o disk/out
refuses 1 "Read-only file system" "$grail" export "$demo/vision/cnn.pth" -o disk/cnn.onnx
mount -o remount,rw disk
