#!/usr/bin/env bash
# grail bench: what it prints and refuses. ONNX Runtime itself is used where GRAIL_ONNXRUNTIME names it.
#
# usage: test_bench.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

cnn=$demo/vision/cnn.pth
text=$golden/llama3
given=${GRAIL_ONNXRUNTIME:-}
unset GRAIL_ONNXRUNTIME

check "two networks of images"
runs "$grail" bench "$cnn" "$cnn" --engine grail --runs 3 --batch 2
says "2 images of 32 x 32 pixels, grail " stdout
says "medians of 3 runs in turns" stdout
says "times as fast (6 runs give an interval)" stdout
[[ ! -s stderr ]] || fail "says more than was asked for"

check "two networks of text, as JSON"
runs "$grail" bench "$text" "$text" --length 16 --runs 2 --json
says '"length": 16' stdout
says '"side": 0' stdout
says '"runs": 2' stdout
holds "$(field ratio stdout) > 0"
says '"ratio_low": null' stdout

check "the interval of the ratio"
runs "$grail" bench "$text" "$text" --length 16 --runs 7 --json
holds "0 < $(field ratio_low stdout) && $(field ratio_low stdout) <= $(field ratio stdout)"
holds "$(field ratio stdout) <= $(field ratio_high stdout)"
runs "$grail" bench "$text" "$text" --length 16 --runs 6
grep -qE "times as fast \(95 % interval [0-9.]+ to [0-9.]+\)$" stdout || fail "prints no interval"

# python_says COMMAND...: a python3 that does this; the last line on stderr of bench without --engine
mkdir fake
python_says() {
    printf '#!/bin/sh\n%s\n' "$*" >fake/python3
    chmod +x fake/python3
    PATH=$work/fake:/usr/bin:/bin runs "$grail" bench "$cnn" "$cnn" --runs 1
}

check "grail's own forward pass where ONNX Runtime is not found, and why"
PATH=relative::. runs "$grail" bench "$cnn" "$cnn" --runs 1
if grep -q ", grail [0-9]" stdout; then # the system has no library
    says "note: grail's own forward pass is measured: ONNX Runtime was not found: no python3 is on PATH" stderr
    printf '#!/bin/sh\ntouch %q\n' "$work/ran" >python3
    chmod +x python3
    PATH=::.:fake:$work/nowhere runs "$grail" bench "$cnn" "$cnn" --runs 1
    [[ ! -e ran ]] || fail "runs the python3 of the working directory"
    says "no python3 is on PATH" stderr
    python_says exit 1
    says "ONNX Runtime was not found: $work/fake/python3 does not have it; install" stderr
    python_says yes
    says "fake/python3 prints more than 4096 bytes" stderr
    python_says echo relative.so
    says "fake/python3 names 'relative.so\n', which is not the path of a file" stderr
    python_says printf %s "$work"
    says "which is not the path of a file" stderr
    python_says printf %s "$cnn"
    says "the library of python3 cannot be loaded: $cnn: " stderr
    python_says 'printf %s "$PWD $1"; exec >&-; exec sleep 1000'
    says "fake/python3 names '/ -I', which" stderr
    python_says exec sleep 1000
    says "fake/python3 did not answer in time" stderr
    echo "no program" >fake/python3
    refuses 1 "fake/python3 cannot be run" env PATH="$work/fake" "$grail" bench "$cnn" "$cnn" --engine onnxruntime
else
    [[ ! -s stderr ]] || fail "says that it was not found"
fi

check "refusals"
refuses 1 "cannot compare a network that reads text with one that reads images" \
    "$grail" bench "$text" "$cnn"
refuses 1 "only networks that read images can be measured in ONNX Runtime" \
    "$grail" bench "$text" "$text" --engine onnxruntime
refuses 1 "'$text' reads text and takes no side of images (--side)" "$grail" bench "$text" "$text" --side 32
refuses 1 "'$cnn' reads images and takes no number of tokens per window (--length)" "$grail" bench "$cnn" "$cnn" --length 8
for option in "precision f32" "backend cpu"; do
    refuses 1 "ONNX Runtime has no choice of ${option% *}; leave that out, or measure with the engine 'grail' (--${option% *}, --engine)" \
        "$grail" bench "$cnn" "$cnn" --engine onnxruntime --${option% *} ${option#* }
done
refuses 2 "engine" "$grail" bench "$cnn" "$cnn" --engine other
echo "no library" >library.so
export GRAIL_ONNXRUNTIME=$work/library.so
refuses 1 "GRAIL_ONNXRUNTIME names '$work/library.so', which cannot be loaded" \
    "$grail" bench "$cnn" "$cnn"

if [[ -n $given ]]; then
    check "ONNX Runtime"
    export GRAIL_ONNXRUNTIME=$given TMPDIR=$work/temporary
    mkdir temporary
    runs "$grail" bench "$cnn" "$cnn" --runs 3
    says "onnxruntime " stdout
    refuses 1 "ONNX Runtime has no choice of precision" "$grail" bench "$cnn" "$cnn" --precision bf16
    [[ -z $(ls temporary) ]] || fail "files are left behind"
    unset GRAIL_ONNXRUNTIME
    python_says printf %s "$(realpath "$given")"
    says "onnxruntime " stdout
fi
