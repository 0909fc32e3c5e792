#!/usr/bin/env bash
# Small files that ask for much memory or time: refused, or read, within a budget of both. The
# budgets are some ten times the actual use, and a fraction of the use without ceilings.
#
# usage: test_hostile.sh GRAIL SOURCE_DIRECTORY
export TMPDIR=/tmp # of files that lie in memory the mapped pages would count as the program's
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip "python3 is not installed"

# A sanitizer takes memory of its own, and address space without end.
sanitized=
if [[ $(ldd "$grail") =~ lib[a-z]*san ]]; then
    sanitized=yes
    echo "   memory is not measured: this is a build with sanitizers"
fi

# make KIND PATH [FILE]
make() {
    python3 "$source_dir/tests/cli/make_hostile.py" "$@"
}

# measured MEGABYTES SECONDS COMMAND...: fills $code, stdout and stderr as run does
measured() {
    local most=$1 seconds=$2 peak cpu
    shift 2
    [[ -z $sanitized ]] || seconds=$((10 * seconds))
    run python3 "$source_dir/tests/cli/measure.py" "$work/measured" "$seconds" "$@"
    read -r peak cpu <"$work/measured"
    echo "   $peak MiB, $cpu s: $(head -c 250 stderr)"
    ((code < 128)) || { show; fail "ended by signal $((code - 128)) after $cpu s: $*"; }
    [[ -n $sanitized ]] || ((peak <= most)) || fail "took $peak MiB, more than $most: $*"
}

# bounded MEGABYTES SECONDS TEXT COMMAND...: is refused and says TEXT
bounded() {
    local most=$1 seconds=$2 text=$3
    shift 3
    measured "$most" "$seconds" "$@"
    ((code == 1)) || { show; fail "exit code $code, expected 1, of: $*"; }
    (($(wc -l <stderr) == 1)) || { show; fail "not one line on stderr: $*"; }
    says "$text" stderr
}

# reads MEGABYTES SECONDS COMMAND...: succeeds
reads() {
    measured "$@"
    ((code == 0)) || { show; fail "exit code $code of: ${*:3}"; }
}

text_of_demo=("$grail" eval "$demo/model" --quiet --windows 1 --data)

check "compressed texts"
make gzip-lines a.jsonl.gz
bounded 100 20 "more than the allowed 200 times as many; decompress the file if this is right" \
    "${text_of_demo[@]}" a.jsonl.gz
make gzip-line a.jsonl.gz
bounded 100 20 "more than the allowed 200 times as many" "${text_of_demo[@]}" a.jsonl.gz
bounded 100 20 "more than the allowed 200 times as many" "$grail" compress "$demo/model" -o out \
    --sparsity 0.3 --align 1 --calib a.jsonl.gz
size=8000000
[[ -z $sanitized ]] || size=1000000
head -c $size /dev/urandom | base64 | awk '{ printf "{\"text\": \"%s\"}\n", $0 }' | gzip -1 >b.jsonl.gz
reads 250 60 "${text_of_demo[@]}" b.jsonl.gz

check "lines of JSON"
make dense-line a.jsonl
bounded 150 20 "line 1: document: 20971545 bytes of JSON hold 6990507 values, 1 arrays and 6990508" \
    "${text_of_demo[@]}" a.jsonl
make long-line a.jsonl
bounded 150 20 "a.jsonl: line 1: has more than the allowed 33554432 bytes" "${text_of_demo[@]}" a.jsonl
rm a.jsonl

check "a large text of which one window is wanted"
make long-text a.txt "$demo/calibration.txt" ${sanitized:+20} # more than is encoded at once
for protocol in plain lines wikitext2 ptb c4; do
    reads 150 30 "${text_of_demo[@]}" a.txt --protocol $protocol
    says "255 tokens scored; the text holds more" stdout
done
reads 150 30 "${text_of_demo[@]}" a.txt --json
says '"stream_tokens": null' stdout
large=$(field perplexity stdout)
head -c 1000000 a.txt >b.txt
reads 150 30 "${text_of_demo[@]}" b.txt --json
[[ $(field perplexity stdout) == "$large" ]] || fail "the first window differs from that of the complete text"
rm a.txt

if [[ -z $sanitized ]]; then # the same steps as for a few
    check "more token ids than are held"
    make many-ids a.npy
    truncate -s $((128 + 300000000)) a.npy
    bounded 100 20 "a.npy: has more than 268435456 tokens" "$grail" eval "$demo/model" --quiet --data a.npy
    reads 100 20 "${text_of_demo[@]}" a.npy
    rm a.npy
fi

# tokenizer MEGABYTES SECONDS TEXT KIND DATA: the demonstration model with a tokenizer of that kind
copy_model "$demo/model" model
tokenizer() {
    make "$4" model/tokenizer.json "$demo/model/tokenizer.json"
    bounded "$1" "$2" "$3" "$grail" eval model --quiet --windows 1 --data "$5"
}
check "tokenizers"
for _ in 1 2 3 4 5 6 7 8; do
    cat "$demo/held-out.txt"
done >prose.txt
head -c 1000000 /dev/zero | tr '\0' a >word.txt
echo '#' | tee -a prose.txt >>word.txt
tokenizer 150 30 "model/tokenizer.json: matching a pattern of the tokenizer stopped" exponential-pattern word.txt
tokenizer 150 30 "model/tokenizer.json: matching a pattern of the tokenizer stopped" quadratic-pattern word.txt
tokenizer 150 30 "model/tokenizer.json: matching a pattern of the tokenizer stopped" quadratic-scan word.txt
tokenizer 100 20 "model/tokenizer.json: the pre-tokenizer has more than one ByteLevel" doubling-steps \
    prose.txt
tokenizer 150 20 "model/tokenizer.json: normalizing 482298 bytes: more than the allowed" growing-steps \
    prose.txt
tokenizer 100 20 "has 500001 bytes, more than the allowed 1024" long-added-token word.txt
tokenizer 150 20 "bytes of JSON hold 10485760 values" crowded-json prose.txt

# weights MEGABYTES SECONDS TEXT KIND NAME
weights() {
    make "$4" "$5"
    bounded "$1" "$2" "$3" "$grail" inspect "$5"
    rm "$5"
}
check "zip archives"
weights 60 20 "member 'a/data/0' is compressed, and compressed members are not read; save it again in Python" zip-zeros a.pth

check "pickles"
weights 400 20 "has more than 4194304 values" pickle-values a.pth
weights 150 20 "nests more than 65536 marks" pickle-marks a.pth
weights 150 20 "puts a value into the memo for the 65604th time, but only 66 values were made so far" pickle-memo a.pth
weights 250 20 "puts more than 4194304 values on the stack" pickle-stack a.pth

check "the header of a safetensors file"
weights 150 20 "header: 31457290 bytes of JSON hold 10485760 values" crowded-header a.safetensors

# image KIND ENDING: a folder of one, with its label
image() {
    rm -rf images
    mkdir images
    make "$1" "images/a.$2"
    echo "a.$2,0" >labels.csv
}
image_of_demo=("$grail" eval "$demo/vision/cnn.pth" --quiet --preset imagenet --data images --labels
    labels.csv)
check "images"
image png-tall png
bounded 60 20 "is 1 x 178956970 pixels, with a side longer than the allowed 65535; shrink it" \
    "${image_of_demo[@]}"
image png-flat png
bounded 60 20 "more than the allowed 200 times as many bytes; shrink it" "${image_of_demo[@]}"
image jpeg-flat jpg
bounded 60 20 "is 13376 x 13376 pixels in a file of 356 bytes" "${image_of_demo[@]}"
image jpeg-scans jpg
bounded 60 20 "is 13376 x 13376 pixels in a file of" "${image_of_demo[@]}"
image png-chunks png
reads 150 30 "${image_of_demo[@]}"

check "too little memory is an error, and not the end of the program"
# limited COMMAND...: succeeds, or says what is missing
limited() {
    rm -rf out out.partial
    run "$@"
    ((code <= 1)) || { show; fail "exit code $code under $limit MiB of: $*"; }
    ((code == 0)) || is_one_line || { show; fail "not one line on stderr: $*"; }
    ((code == 0)) || grep -q 'memory\|cannot start' stderr || { show; fail "the message does not mention memory"; }
    ((code == 0)) || echo "   $limit MiB: $(cat stderr)"
}
if [[ -n $sanitized ]]; then
    echo "   not tested: sanitizers take address space without end"
else
    for limit in 100 ${GRAIL_TEST_ALL:+115 130} 145 160 180 200 240 300 ${GRAIL_TEST_ALL:+400}; do
        (
            ulimit -v $((1024 * limit))
            limited "$grail" compress "$demo/model" -o out --calib "$demo/calibration.txt" \
                --samples 8 --sparsity 0.3 --align 1 --threads 2 --quiet
            limited "$grail" compress "$demo/vision/cnn.pth" -o out --threads 2 --quiet \
                --calib "$demo/vision/calibration" --preset cifar --samples 16 --sparsity 0.3 --align 1
            limited "$grail" eval "$demo/vision/cnn.pth" --data "$demo/vision/test" --images 16 \
                --threads 2 --quiet
        ) || exit 1
    done
fi
