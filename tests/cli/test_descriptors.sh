#!/usr/bin/env bash
# Commands that are started with standard input, output or error closed, read-only or joined: they
# write the same bytes as with all three open, print what can be printed, and fail when standard
# output accepts nothing.
#
# usage: test_descriptors.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

vision=$demo/vision
export OMP_NUM_THREADS=2
write_ids ids.npy 16 16 96

# What each command is started with, and what it writes into the directory it runs in.
commands=(compress eval inspect export verify)
arguments() {
    case $1 in
    compress) echo compress "$golden/llama3" -o out --calib ../ids.npy --sparsity 0.5 --align 1 ;;
    eval) echo eval "$golden/llama3" --data ../ids.npy ;;
    inspect) echo inspect "$golden/llama3" --json ;;
    export) echo export "$vision/cnn.pth" -o out ;;
    verify) echo verify "$golden/llama3" "$golden/llama3" --data ../ids.npy ;;
    esac
}

# without_times FILE: what two runs of a command have in common
without_times() {
    sed -E 's/"[a-z_]*seconds": .*//; s/"seconds":\{[^}]*\}//; s/"started":"[^"]*"//
        s/"peak_bytes":[0-9]+//; s/,"crc32":.*//; s/run now in .*//; s/, about .* left//' "$1"
}

# same_files A B: of two directories, below them too
same_files() {
    local file
    diff <(cd "$1" && find . | sort) <(cd "$2" && find . | sort) || fail "other files in $2"
    (cd "$1" && find . -type f) >files
    while read -r file; do
        cmp <(without_times "$1/$file") <(without_times "$2/$file") || fail "other bytes in $2/$file"
    done <files
}

# start COMMAND REDIRECTIONS: in a new directory `here`; fills $code
start() {
    rm -rf here
    mkdir here
    : >printed
    : >told
    code=0
    (cd here && eval '"$grail" $(arguments "$1")' "$2") || code=$?
}

for command in "${commands[@]}"; do
    check "$command, with all combinations of closed descriptors"
    start $command '</dev/null >../printed 2>../told'
    ((code == 0)) || { cat told >&2; fail "exit code $code"; }
    [[ -s printed ]] || fail "prints nothing"
    rm -rf reference
    mv here reference
    without_times printed >reference.printed
    without_times told >reference.told
    for in in '</dev/null' '<&-'; do
        for out in '>../printed' '>&-'; do
            for err in '2>../told' '2>&-'; do
                checking="$command $in $out $err"
                start $command "$in $out $err"
                same_files reference here
                if [[ $out == '>&-' ]]; then
                    ((code == 1)) || fail "exit code $code"
                    [[ $err == '2>&-' ]] || says "grail: cannot write to standard output: Bad file" told
                else
                    ((code == 0)) || fail "exit code $code"
                    cmp reference.printed <(without_times printed) || fail "standard output differs"
                    [[ $err == '2>&-' ]] || cmp reference.told <(without_times told) || fail "standard error differs"
                fi
            done
        done
    done
done

check "a standard output that is open for reading only, and one that is full"
start inspect '</dev/null >../printed 1</dev/null 2>../told'
((code == 1)) || fail "exit code $code"
says "grail: cannot write to standard output: Bad file descriptor" told
start compress '</dev/null >/dev/full 2>../told'
((code == 1)) || fail "exit code $code"
says "grail: cannot write to standard output: No space left on device" told
start compress '</dev/null >../printed 2>/dev/null'
rm -rf reference
mv here reference

check "one file for both, standard input from a directory, from the weights, from an open pipe"
for redirections in '</dev/null >../printed 2>&1' '<. >../printed 2>../told' '0>../printed 1>&0 2>&0' \
    "<$golden/llama3/model.safetensors >../printed 2>../told" '< <(yes) >../printed 2>../told'; do
    start compress "$redirections"
    ((code == 0)) || { cat printed told >&2; fail "exit code $code with $redirections"; }
    same_files reference here
    says "written: out" printed
done

check "closed descriptors, and other ones that are open"
start compress '<&- >../printed 2>&- 3>../three 5</dev/null'
((code == 0)) || fail "exit code $code"
same_files reference here
[[ ! -s three ]] || fail "something was written to descriptor 3"

check "nothing to print: nothing is missed"
run bash -c '"$@" >&-' - "$grail" logits "$golden/llama3" --ids ids.npy -o quiet.safetensors
((code == 0)) || fail "exit code $code"
run bash -c '"$@" >&-' - "$grail" --help
((code == 1)) || fail "exit code $code"
run bash -c '"$@" 2>&-' - "$grail" inspect nothing
((code == 1)) || fail "exit code $code"
[[ ! -s stdout ]] || fail "the message was printed on stdout"
