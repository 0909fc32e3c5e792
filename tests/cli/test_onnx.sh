#!/usr/bin/env bash
# ONNX files as models: described, narrowed, compared and measured; what is refused.
#
# usage: test_onnx.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

net=$source_dir/tests/golden/vision/onnx/net.onnx
pixels=$source_dir/tests/golden/vision/onnx/golden.safetensors
images=$demo/vision/calibration
python=${GRAIL_PYTHON:-python3}

narrow() {
    rm -rf out
    runs "$grail" compress "$net" -o out --calib "$images" --preset cifar --samples 24 --align 1 --quiet "$@"
}

check "a file is described by its nodes"
runs "$grail" inspect "$net"
says "onnx, F32, 4 blocks" stdout
says "nothing says how images are prepared for this network; name the preset" stderr

check "a preset must be named"
refuses 1 "nothing says how images are prepared for this network; name the preset by which images are prepared (--preset)" \
    "$grail" compress "$net" -o out --calib "$images" --sparsity 0.5
refuses 1 "a onnx network has no setting 'activation'" "$grail" inspect "$net" --set activation=relu

check "a run without a cut gives the file byte for byte"
narrow --sparsity 0
"$grail" logits "$net" --pixels "$pixels" -o dense.safetensors --quiet 2>/dev/null
"$grail" logits out/net.onnx --pixels "$pixels" -o same.safetensors --quiet 2>/dev/null
cmp dense.safetensors same.safetensors || fail "logits differ"
cmp "$net" out/net.onnx || fail "bytes differ"

check "a preset that is set is kept"
narrow --sparsity 0.5 --set preset=cifar
says '"preset": "cifar"' out/grail.json
runs "$grail" eval out --data "$demo/vision/test" --images 20
says "cifar" stdout

# narrows NAME: tests/golden/vision/NAME, to what zeros make of it; bytes are kept where nothing is cut
narrows() {
    local name=$1
    net=$source_dir/tests/golden/vision/$name/net.onnx
    pixels=$source_dir/tests/golden/vision/$name/golden.safetensors
    narrow --sparsity 0
    cmp "$net" out/net.onnx || fail "bytes differ"
    narrow --sparsity 0.5 --selector random --compensate none
    runs "$grail" verify "$net" out/net.onnx
    says ", holds (tolerance 0.001)" stdout
    narrow --sparsity 0.5
    cp out/net.onnx "$name.onnx"
    "$grail" logits "$name.onnx" --pixels "$pixels" -o "$name.safetensors" --quiet 2>/dev/null
}

check "positions beside channels go with them, and what several nodes read is narrowed for each"
narrows onnx_flat
runs "$grail" inspect onnx_flat.onnx
narrow --sparsity 0.5 --selector wanda --compensate grail
narrow --sparsity 0.5 --selector fold

check "channels of transposed convolutions go with their patches"
narrows onnx_decoder
narrow --sparsity 0.5 --selector fold
narrow --sparsity 0.5 --heal model --heal-steps 2 --heal-batch 8

net=$source_dir/tests/golden/vision/onnx/net.onnx
pixels=$source_dir/tests/golden/vision/onnx/golden.safetensors

for sites in conv stream ffn conv,stream,ffn; do
    check "a narrowed network is the dense one with zeros: $sites"
    narrow --sparsity 0.5 --selector random --compensate none --sites $sites
    runs "$grail" verify "$net" out/net.onnx
    says ", holds (tolerance 0.001)" stdout
    (($(stat -c %s out/net.onnx) < $(stat -c %s "$net"))) || fail "$(ls -l out)"
done

check "the same bytes come out again, and a result is narrowed again"
narrow --sparsity 0.5
cp out/net.onnx first.onnx
narrow --sparsity 0.5
cmp first.onnx out/net.onnx || fail "bytes differ"
runs "$grail" compress first.onnx -o again --calib "$images" --preset cifar --samples 24 --sparsity 0.2 --align 1 --quiet
runs "$grail" inspect again

check "an unfinished file is none"
head -c 1 "$net" >one.onnx
rm -rf out
printf '\0' | cat - <(tail -c +2 "$net") >unsealed.onnx
refuses 1 "unsealed.onnx" "$grail" inspect unsealed.onnx
refuses 1 "one.onnx" "$grail" inspect one.onnx

"$python" -c "import onnx, onnxruntime, numpy" 2>/dev/null || skip "$python lacks onnx, onnxruntime or numpy; the checks before are made"

check "ONNX Runtime computes what grail does"
narrow --sparsity 0.5
"$grail" logits out/net.onnx --pixels "$pixels" -o narrow.safetensors --quiet 2>/dev/null
cp out/net.onnx onnx.onnx
cp narrow.safetensors onnx.safetensors
"$python" - "$source_dir/tests/golden/vision" <<'PYTHON' || fail "$(cat stderr)"
import json, struct, sys
import numpy, onnx, onnxruntime

def read(path, name):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    entry = json.loads(data[8:8 + size])[name]
    begin, end = entry["data_offsets"]
    return numpy.frombuffer(data[8 + size + begin:8 + size + end], numpy.float32).reshape(entry["shape"])

for name in ("onnx", "onnx_flat", "onnx_decoder"):
    onnx.checker.check_model(onnx.load(f"{name}.onnx"), full_check=True)
    session = onnxruntime.InferenceSession(f"{name}.onnx", providers=["CPUExecutionProvider"])
    pixels = numpy.ascontiguousarray(read(f"{sys.argv[1]}/{name}/golden.safetensors", "pixels").transpose(0, 3, 1, 2))
    theirs = session.run(None, {"pixels": pixels})[0]
    difference = abs(theirs - read(f"{name}.safetensors", "logits")).max() / abs(theirs).max()
    assert difference < 1e-5, (name, difference)
PYTHON
echo "all checks passed"
