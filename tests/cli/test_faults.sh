#!/usr/bin/env bash
# A run in which one system call does not do what it should, for one call after the other: the
# program is killed there (SIGKILL), the disk is full (ENOSPC), the disk fails (EIO), or the call
# takes long while a second run wants the same output. What looks finished is right, nothing that
# was finished is lost, and the continued run has the bytes of an uninterrupted one. Needs strace.
#
# Then the program is killed at random times.
#
# usage: test_faults.sh GRAIL SOURCE_DIRECTORY KIND [MOST|all [KILLS]]
# KIND is decoder, experts (dropped and narrowed, in stacks), gguf (--quantize q8_0), heal, resnet (streams and REPAIR), open-loop,
# gram (whole Gram matrices), gram-add (of two files), plan, export or quantize. The calls are those that change a
# disk, at most MOST of each (3, and 6 with GRAIL_TEST_ALL), and without GRAIL_TEST_ALL one of the two errors and half of the second
# runs, which the next kind with such an output does not get; with `all` every call to do with files, which takes ten minutes to an hour, and kills only at those that may change a disk: between two of them the disk is the same. Calls
# for memory and threads are left out: the loader and glibc crash when their own ones fail, and unit tests
# and test_hostile.sh refuse memory to grail. KILLS (3) is the number of random times.
few=${GRAIL_TEST_ALL:+6}
few=${few:-3}
kind=$3 scope=${4-$few} kills=${5-3}
. "$(dirname "$0")/lib.sh"

# strace knows of no leak checker, nor the leak checker of strace
export ASAN_OPTIONS=detect_leaks=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}
command -v strace >/dev/null || skip "strace is not installed"
strace -qq -o /dev/null true 2>/dev/null || skip "strace may not trace here"

# Runs on a narrow network make as many calls, and take a tenth of the time.
narrow_network() {
    runs "$grail" compress "$demo/vision/cnn.pth" -o narrow --sparsity 0.75 --sites conv,stream --align 1 \
        --selector magnitude-l1 --compensate none --quiet
}

case $kind in
decoder | experts | open-loop | gguf)
    write_ids ids.npy 8 32 96
    write_ids other.npy 16 16 96 2
    model=$golden/llama3-sharded
    command=(compress "$model" --calib ids.npy --eval other.npy --sparsity 0.5 --align 1 --quiet --threads 1)
    if [[ $kind == open-loop ]]; then
        command+=(--loop open)
    elif [[ $kind == experts ]]; then
        command[1]=$golden/granitemoe
        command+=(--sites ffn,experts)
    elif [[ $kind == gguf ]]; then # a head of its own, and a table of divisors that the directory lacks
        copy_model "$model" model
        write_tokenizer model/tokenizer.json
        command=(compress model --calib ids.npy --eval other.npy --sparsity 0.5 --quantize q8_0 --quiet --threads 1)
    fi
    ;;
heal)
    write_ids ids.npy 8 32 96
    write_ids other.npy 16 16 96 2
    runs "$grail" compress "$golden/llama3" -o narrow --sparsity 0.5 --align 1 --selector magnitude-l1 \
        --compensate none --quiet
    command=(heal narrow --teacher "$golden/llama3" --calib ids.npy --eval other.npy --samples 8
        --heal block,model --heal-steps 2 --quiet --threads 1)
    ;;
resnet)
    narrow_network
    model=narrow/cnn.pth
    command=(compress "$model" --calib "$demo/vision/calibration" --samples 4 --sparsity 0.5
        --sites conv,stream --align 1 --repair --preset cifar --quiet --threads 1)
    ;;
gram | gram-add)
    write_ids ids.npy 8 32 96
    write_ids other.npy 8 32 96 2
    command=(gram "$golden/llama3" --calib ids.npy --full --quiet --threads 1)
    if [[ $kind == gram-add ]]; then
        runs "$grail" "${command[@]}" -o first.gguf
        runs "$grail" gram "$golden/llama3" --calib other.npy --full --quiet --threads 1 -o second.gguf
        command=(gram --add first.gguf second.gguf --quiet)
    fi
    ;;
plan)
    write_ids ids.npy 8 32 96
    command=(plan "$golden/llama3" --calib ids.npy --target-ratio 0.8 --budget error --quiet --threads 1)
    ;;
export | quantize)
    write_ids ids.npy 8 32 96
    copy_model "$golden/llama3-sharded" model
    write_tokenizer model/tokenizer.json
    command=(export model --type f16)
    if [[ $kind == quantize ]]; then
        command=(quantize model --type q8_0 --calib ids.npy --quiet --threads 1)
    fi
    ;;
*)
    echo "unknown kind '$kind'" >&2
    exit 2
    ;;
esac

# What takes long is made in out.partial and continued there, other files are made at once.
case $kind in
gram-add | plan | export) output=file resume=() ;;
gram | quantize) output=file resume=(--resume) ;;
*) output=directory resume=(--resume) ;;
esac

same_as_complete() {
    case $output in
    file) cmp complete "$1" || fail "$1 is not what an uninterrupted run writes, $where" ;;
    directory) same_result complete "$1" ;;
    esac
}

# What is named OUTPUT is finished; a partial opens only where all its weights are there.
assert_nothing_pretended() {
    if [[ -e out ]]; then
        same_as_complete out
        [[ $output == file ]] || runs "$grail" inspect out
    fi
    if [[ -e out.partial ]]; then
        refuses_anything "$grail" inspect out.partial
        run "$grail" inspect out.partial/result
        if ((code == 0)); then
            same_weights complete out.partial/result
        fi
    fi
}

refuses_anything() {
    run "$@"
    ((code == 1)) || { show; fail "exit code $code of: $*, $where"; }
}

# same_weights A B: the weight files of A, or the file A, are in B
same_weights() {
    local file
    [[ -d $1 ]] || cmp "$1" "$2"/* || fail "other bytes in $2, $where"
    for file in "$1"/*.safetensors "$1"/*.gguf "$1"/*.pth; do
        [[ ! -e $file ]] || cmp "$file" "$2/${file##*/}" || fail "wrong weights in $2, $where"
    done
}

continue_run() {
    if [[ -e out && ! -s out.partial/grail-state.jsonl ]]; then
        same_as_complete out # finished, and at most an empty directory is left beside it
        rmdir out.partial 2>/dev/null || [[ ! -e out.partial ]] || fail "out.partial holds something"
        return
    fi
    runs "$grail" "${command[@]}" -o out "${resume[@]}"
    same_as_complete out
    [[ ! -e out.partial ]] || fail "out.partial is left, $where"
    [[ -z $(find . -name '.grail-*.tmp') ]] || fail "a temporary file is left, $where"
}

# interrupted CALL N HOW: whether the run's N-th such call met HOW
interrupted() {
    local quick=(--seccomp-bpf) # stops at no other calls; strace 6.1 then loses signals
    [[ $3 != signal=* ]] || quick=()
    rm -rf out out.partial page.html .grail-*.tmp
    # the shell tells of what is killed
    {
        run strace -f "${quick[@]}" -qq -o trace -e trace="$1" -e inject="$1:$3:when=$2" "$grail" \
            "${command[@]}" -o out
    } 2>/dev/null
    grep -q 'killed by SIGKILL\|INJECTED' trace
}

# A failure is told in one line behind warnings and notes, with the command that goes on where one
# does; what is not told has done no harm.
assert_told() {
    if ((code == 0)); then
        same_as_complete out
        return
    fi
    ((code == 1 || code == 127)) || { show; fail "exit code $code, $where"; }
    (($(sed '/^grail: continue it with:$/,+1d' stderr | grep -vc '^grail: \(warning\|note\): ') == 1)) || { show; fail "not one line on stderr, $where"; }
    [[ -z $(find . -name '.grail-*.tmp') ]] || fail "a temporary file is left, $where"
    if [[ ${#resume[@]} != 0 && -e out.partial ]]; then
        grep -q -e "--resume" -e "complete in" -e "choose another output" -e "cannot" stderr ||
            { show; fail "out.partial is left without a word, $where"; }
    fi
}

# Two runs into one output: one of them, or the second behind the first, makes it.
second_run_meanwhile() {
    local first i
    rm -rf out out.partial
    strace -f --seccomp-bpf -qq -o trace -e trace="$1" -e inject="$1:delay_enter=150000:when=$2" "$grail" \
        "${command[@]}" -o out >first.out 2>first.err &
    first=$!
    for ((i = 0; i < 10; i++)); do # until the first run has begun, or is held up before that
        [[ ! -e out && ! -e out.partial ]] || break
        sleep 0.01
    done
    run "$grail" "${command[@]}" -o out
    if ((code != 0)); then
        grep -q "another run is\|exists already\|interrupted run\|cannot open\|'out' exists" stderr ||
            { show; fail "the second run is not told why, $where"; }
    fi
    wait $first || grep -q "another run is\|exists already\|interrupted run\|appeared\|'out' exists" \
        first.err || { cat first.err >&2; fail "the first run is not told why, $where"; }
    grep -q 'INJECTED\|DELAYED' trace || return 1
    continue_run
}

runs "$grail" "${command[@]}" -o complete

most=$scope
calls=(mkdir mkdirat rename renameat2 linkat unlink unlinkat rmdir fallocate ftruncate write pwrite64 fsync
    fdatasync)
strace -f -qq -c -o counts "$grail" "${command[@]}" -o counted >/dev/null 2>&1
mapfile -t made < <(awk '$1 ~ /^[0-9.]+$/ && $NF != "total" { print $NF }' counts)
if [[ $scope == all ]]; then
    most=1000000
    calls=("${made[@]}")
fi

# step_of CALL: between the calls that are tried
step_of() {
    awk -v name="$1" -v most=$most '$NF == name { n = $4 }
        END { print (n > most ? int((n + most - 1) / most) : 1) }' counts
}

changes='^(open|p?write|mkdir|rmdir|unlink|rename|linkat|f(sync|datasync|allocate|truncate|cntl))'
looks='^(close|p?read|access|getdents|lseek|(newf|f)?stat|ioctl|getcwd)'

# applies HOW CALL
applies() {
    [[ $2 =~ $changes ]] || [[ $1 == error=* && $2 =~ $looks ]]
}

# takes_turn PLACE: whether what stands at that place of a list is tried in this kind, and not in the next one, which
# has such an output, too; heal and plan stand alone
kinds=(decoder experts gguf open-loop resnet heal gram quantize gram-add export plan)
for ((number = 0; number < ${#kinds[@]}; number++)); do
    [[ ${kinds[number]} != "$kind" ]] || break
done
takes_turn() {
    [[ -n ${GRAIL_TEST_ALL:-} || $scope == all || $kind == heal || $kind == plan ]] || ((($1 + number) % 2 == 0))
}

total=0
place=0
for call in "${calls[@]}"; do
    place=$((place + 1))
    [[ " ${made[*]} " == *" $call "* ]] || continue
    step=$(step_of "$call")
    for how in signal=KILL error=ENOSPC error=EIO; do
        applies $how "$call" || continue
        [[ $how == signal=KILL ]] || takes_turn $((place + ${#how})) || continue
        for ((n = 1;; n += step)); do
            where="$how at $call $n"
            checking=$where
            interrupted "$call" $n $how || break
            if [[ $how != signal=KILL ]]; then
                assert_told
            fi
            assert_nothing_pretended
            continue_run
            total=$((total + 1))
        done
        ((n == 1)) || echo "-- $how at $call: up to the $((n - step)). of them"
    done
done
((total > 2 * few)) || fail "only $total faults met the run"

place=0
for call in mkdir unlinkat renameat2 fsync fdatasync pwrite64; do
    place=$((place + 1))
    [[ " ${made[*]} " == *" $call "* ]] && takes_turn $place || continue
    for ((n = 1; n <= 3 * few; n += 5)); do
        where="a second run while $call $n takes long"
        checking=$where
        second_run_meanwhile $call $n || break
        total=$((total + 1))
    done
    ((n == 1)) || echo "-- a second run while $call takes long: up to the $((n - 5)). of them"
done

# killed_after MICROSECONDS: whether the run was still going on then
killed_after() {
    local process status=0
    rm -rf out out.partial page.html
    "$grail" "${command[@]}" -o out >stdout 2>stderr &
    process=$!
    sleep "$(printf '%d.%06d' $(($1 / 1000000)) $(($1 % 1000000)))"
    {
        kill -KILL $process
        wait $process
    } 2>/dev/null || status=$?
    ((status == 128 + 9))
}

duration=1000000000 # the shortest of some runs, so that most kills meet one
for ((n = 0; n < 5; n++)); do
    rm -rf timed
    begin=${EPOCHREALTIME/./}
    runs "$grail" "${command[@]}" -o timed
    took=$((${EPOCHREALTIME/./} - begin))
    duration=$((took < duration ? took : duration))
done
met=0
for ((n = 0; n < kills; n++)); do
    delay=$((RANDOM * duration / 32768))
    where="SIGKILL after $delay of $duration microseconds"
    checking=$where
    if killed_after $delay; then
        met=$((met + 1))
    fi
    assert_nothing_pretended
    continue_run
done
echo "-- SIGKILL at $kills random times within $((duration / 1000)) ms: $met met the run"
total=$((total + met))
echo "$total faults, kind $kind"
