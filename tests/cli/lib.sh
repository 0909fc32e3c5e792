# Functions of the tests of the command line. A test is called with the path of grail and of the
# source directory, and sources this file with the same arguments.
set -euo pipefail
export LC_ALL=C
# Waiting threads sleep instead of spin, which is faster for tiny products on a busy machine.
export OMP_WAIT_POLICY=passive

grail=$(realpath -- "$1")
source_dir=$(realpath -- "$2")
demo=$source_dir/demo
golden=$source_dir/tests/golden/models
shared=${GRAIL_SHARED_DATA:-$source_dir/../shared/data}
# Tokens per window of the demonstration text; fewer where sanitizers slow everything down.
context=${GRAIL_TEST_CONTEXT:-128}
work=$(mktemp -d)
cd "$work"

clean_up() {
    cd /
    rm -rf "$work"
}
trap clean_up EXIT

# Names the current check; failures print it.
checking=
check() {
    checking=$*
    echo "-- $checking"
}

fail() {
    echo "FAIL: $checking: $*" >&2
    exit 1
}

skip() {
    echo "SKIPPED: $*"
    exit 77
}

# run COMMAND...: fills $code, and the files stdout and stderr
run() {
    code=0
    "$@" >stdout 2>stderr || code=$?
}

show() {
    sed 's/^/    /' stdout stderr >&2
}

# runs COMMAND...: must succeed
runs() {
    run "$@"
    ((code == 0)) || { show; fail "exit code $code of: $*"; }
}

# is_one_line: whether stderr has one line, beside the command that goes on
is_one_line() {
    (($(sed '/^grail: continue it with:$/,+1d' stderr | wc -l) == 1))
}

# refuses CODE TEXT COMMAND...: must exit with CODE, say TEXT in one line on stderr and nothing on
# stdout, and leave no output
refuses() {
    local expected=$1 text=$2
    shift 2
    run "$@"
    ((code == expected)) || { show; fail "exit code $code, expected $expected, of: $*"; }
    [[ ! -s stdout ]] || { show; fail "printed on stdout: $*"; }
    (($(wc -l <stderr) == 1)) || { show; fail "not one line on stderr: $*"; }
    grep -qF -- "$text" stderr || { show; fail "does not say \"$text\": $*"; }
    sed 's/^/   /' stderr
    [[ ! -e out ]] || fail "left the output of: $*"
}

# refuses_clean: the same, and must not leave out.partial either
refuses_clean() {
    refuses "$@"
    [[ ! -e out.partial ]] || { ls -la out.partial >&2; fail "left out.partial: $*"; }
}

# says TEXT FILE
says() {
    grep -qF -- "$1" "$2" || { sed 's/^/    /' "$2" >&2; fail "$2 does not say \"$1\""; }
}

# holds CONDITION: an arithmetic comparison of real numbers, as awk understands it
holds() {
    awk "BEGIN { exit !($1) }" || fail "does not hold: $1"
}

# calculate EXPRESSION
calculate() {
    awk "BEGIN { printf \"%.6g\", $1 }"
}

# field KEY FILE: the first value of a key in a JSON document with one key per line
field() {
    sed -n "s/^ *\"$1\": \"\\{0,1\\}\\([^\",]*\\).*/\\1/p" "$2" | head -n 1
}

# without_seconds FILE: a report without its times
without_seconds() {
    grep -v '"\(solve_\)\{0,1\}seconds":' "$1"
}

# same_result A B: both have the same files with the same bytes, except for the times in report.json and
# the command in README.md
same_result() {
    local file
    diff <(cd "$1" && ls -A) <(cd "$2" && ls -A) || fail "other files in $2 than in $1"
    for file in "$1"/*; do
        file=${file##*/}
        if [[ $file == report.json ]]; then
            cmp <(without_seconds "$1/$file") <(without_seconds "$2/$file") ||
                fail "$2/$file is not that of $1"
        elif [[ $file == README.md ]]; then
            cmp <(sed '/^## Command$/,$d' "$1/$file") <(sed '/^## Command$/,$d' "$2/$file") ||
                fail "$2/$file is not that of $1"
        else
            cmp "$1/$file" "$2/$file" || fail "$2/$file is not that of $1"
        fi
    done
}

# killed_at OUT LINES COMMAND...: COMMAND writes OUT, and is killed once its record has so many lines; a run that was over
# before is made again
killed_at() {
    local out=$1 lines=$2 try
    for try in {1..20}; do
        rm -rf "$out" "$out.partial"
        "${@:3}" -o "$out" >stdout 2>stderr &
        until (($(cat "$out.partial/grail-state.jsonl" 2>/dev/null | wc -l) >= lines)); do
            kill -0 $! 2>/dev/null || break
        done
        kill -KILL $! 2>/dev/null || true
        wait $! 2>/dev/null || true
        [[ -e $out ]] || return 0
    done
    fail "every run ended before it could be killed: ${*:3}"
}

# bytes HEX...: writes these bytes
bytes() {
    local text=
    for hex; do
        text+="\\x$hex"
    done
    printf '%b' "$text"
}

# write_ids FILE ROWS COLUMNS VOCABULARY [SEED]: token ids as .npy (int16), below VOCABULARY
write_ids() {
    local header="{'descr': '<i2', 'fortran_order': False, 'shape': ($2, $3), }"
    {
        bytes 93 4e 55 4d 50 59 01 00 76 00
        printf '%-117s\n' "$header"
        printf '%b' "$(awk -v n=$(($2 * $3)) -v most="$4" -v seed="${5:-1}" 'BEGIN {
            x = seed * 7919 + 17
            for (i = 0; i < n; i++) {
                x = (x * 69069 + 12345) % 2147483648
                id = int(x / 65536) % most
                printf "\\x%02x\\x%02x", id % 256, int(id / 256)
            }
        }')"
    } >"$1"
}

# header_size FILE: bytes before the data of a safetensors file
header_size() {
    echo $(($(od -An -tu8 -N8 "$1") + 8))
}

# tensor_offset FILE TENSOR: where its bytes begin in the file
tensor_offset() {
    local begin
    begin=$(head -c "$(header_size "$1")" "$1" | tail -c +9 |
        grep -ao "\"$2\":{[^}]*\"data_offsets\":\[[0-9]*" | grep -o '[0-9]*$')
    [[ -n $begin ]] || fail "$1 has no tensor $2"
    echo $(($(header_size "$1") + begin))
}

# patch FILE OFFSET HEX...: overwrites bytes
patch() {
    local file=$1 offset=$2
    shift 2
    bytes "$@" | dd of="$file" bs=1 seek="$offset" conv=notrunc status=none
}

# patch_tensor FILE TENSOR HEX...: overwrites the first bytes of a tensor of a safetensors file
patch_tensor() {
    patch "$1" "$(tensor_offset "$1" "$2")" "${@:3}"
}

# replace_header FILE OLD NEW: replaces text of equal length in a safetensors header
replace_header() {
    local at
    ((${#2} == ${#3})) || fail "'$2' and '$3' are not of one length"
    at=$(grep -abo -m 1 -F -- "$2" "$1" | head -n 1 | cut -d: -f1)
    [[ -n $at ]] || fail "$1 does not hold '$2'"
    printf '%s' "$3" | dd of="$1" bs=1 seek="$at" conv=notrunc status=none
}

# copy_model FROM TO: a copy that may be damaged
copy_model() {
    rm -rf "$2"
    cp -r "$1" "$2"
    chmod -R u+w "$2"
}

# write_tokenizer FILE: a byte-level BPE of 96 ids, as many as the golden decoders have
write_tokenizer() {
    python3 - >"$1" <<'PYTHON'
import json
vocabulary = {chr(33 + i): i for i in range(94)}
added = [{"id": 94, "content": "<|end|>", "special": True}, {"id": 95, "content": "<x>", "special": False}]
steps = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
print(json.dumps({"model": {"type": "BPE", "vocab": vocabulary, "merges": []}, "added_tokens": added,
                  "pre_tokenizer": steps}))
PYTHON
}

# perplexity MODEL DATA OPTIONS...
perplexity() {
    local model=$1 data=$2
    shift 2
    runs "$grail" eval "$model" --data "$data" --json "$@"
    field perplexity stdout
}

# cut_perplexity REPAIR MODEL CALIBRATION EVALUATION OPTIONS...: the perplexity of the model after the
# cut and the repair. The array windows holds options for reading texts, the array measured options that
# limit the evaluation
cut_perplexity() {
    local repair=$1 model=$2 calibration=$3 evaluation=$4
    shift 4
    rm -rf out
    runs "$grail" compress "$model" -o out --calib "$calibration" --compensate "$repair" --quiet \
        --align 1 --selector wanda "${windows[@]}" "$@"
    perplexity out "$evaluation" "${windows[@]}" "${measured[@]}"
}

# share DENSE PLAIN REPAIRED: the share of the lost log-perplexity that the repair wins back
share() {
    calculate "(log($2) - log($3)) / (log($2) - log($1))"
}

# compare REPAIR DENSE PLAIN REPAIRED: prints the perplexities and checks their order
compare() {
    echo "   dense $2, plain cut $3, repaired by $1 $4: $(share "$2" "$3" "$4") of the loss won back"
    holds "$2 < $4 && $4 < $3"
}

# needs_mpi: skips the test where ranks cannot be started
needs_mpi() {
    local near
    near=$(dirname -- "$grail")/..
    command -v mpirun >/dev/null || skip "mpirun is not installed (openmpi-bin)"
    [[ -e $near/lib/grail/grail-mpi.so || -n $(find "$near" -name grail-mpi.so -print -quit) ]] ||
        skip "grail was built without MPI (libopenmpi-dev)"
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
    # Launchers share a folder for their sockets below TMPDIR, and one that ends removes it under another that begins.
    export OMPI_MCA_orte_tmpdir_base=$work/launcher
    mkdir -p "$OMPI_MCA_orte_tmpdir_base"
}

# write_vocabulary FILE: a tokenizer.json of 96 pieces, as many as the golden encoders have tokens
write_vocabulary() {
    local id=0 piece
    {
        printf '{"added_tokens": ['
        for piece in PAD UNK CLS SEP MASK; do
            printf '%s{"id": %d, "content": "[%s]"}' "$( ((id == 0)) || echo ,)" $((id++)) $piece
        done
        printf '], "normalizer": {"type": "BertNormalizer"}, "pre_tokenizer": {"type": "BertPreTokenizer"}, '
        printf '"post_processor": {"type": "BertProcessing", "cls": ["[CLS]", 2], "sep": ["[SEP]", 3]}, '
        printf '"model": {"type": "WordPiece", "unk_token": "[UNK]", "vocab": {'
        id=0
        for piece in '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' {a..z} \#\#{a..z} word{1..39}; do
            printf '%s"%s": %d' "$( ((id == 0)) || echo ,)" "$piece" $((id++))
        done
        printf '}}}'
    } >"$1"
}

# needs_onnx [TEXT]: skips the test where $python lacks what the networks of tests/cli/onnx_maker.py need
needs_onnx() {
    "$python" -c "import onnx, onnxruntime, numpy" 2>/dev/null || skip "$python lacks onnx, onnxruntime or numpy${1:-}"
    export PYTHONPATH=$source_dir/tests/cli${PYTHONPATH:+:$PYTHONPATH} PYTHONDONTWRITEBYTECODE=1
}

# same_outputs MODEL PIXELS: ONNX Runtime, of $python, computes of these images what grail does
same_outputs() {
    rm -f own.safetensors
    "$grail" logits "$1" --pixels "$2" -o own.safetensors --quiet 2>stderr || fail "$(cat stderr)"
    "$python" "$source_dir/tests/cli/compare_onnx.py" "$1" "$2" own.safetensors || fail "outputs of $1 differ"
}

# narrow_by_half NAME SITES PARAMETERS: the network NAME.onnx opens, is narrowed by half to so many of its parameters, by a fit that reads arrays of
# the network's own shape, and computes in ONNX Runtime what grail computes; without a fit it is the dense one with zeros.
narrow_by_half() {
    check "$1"
    same_outputs "$1.onnx" "$1.safetensors"
    local repair
    for repair in full none; do
        rm -rf out
        runs "$grail" compress "$1.onnx" -o out --calib "$1.npy" --sites "$2" --align 1 --sparsity 0.5 --compensate $repair --quiet
        same_outputs "out/$1.onnx" "$1.safetensors"
    done
    "$python" -c "import json, sys; n = json.load(open('out/report.json'))['narrow']['parameters']; sys.exit(n != $3 and str(n))" \
        || fail "parameters of $1"
    runs "$grail" verify "$1.onnx" out/"$1.onnx"
    says ", holds (tolerance 0.001)" stdout
}
