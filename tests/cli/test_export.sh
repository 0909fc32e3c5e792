#!/usr/bin/env bash
# grail export: what it prints, what it refuses, and what is left behind.
source "$(dirname "$0")/lib.sh" "$@"

vit=$source_dir/tests/golden/vision/timm-vit

check "a file is written and described"
runs "$grail" export "$vit" -o net.onnx --set head_dim=16
says "net.onnx: " stdout
says "pixels  F32 [N, 3, 24, 24]" stdout
says "logits  F32 [N, 7]" stdout
[[ -s net.onnx && ! -e net.onnx.data && ! -e net.onnx.tmp ]] || fail "$(ls)"
grep -qaF "blocks.1.mlp.fc2.weight" net.onnx || fail "names of the checkpoint are missing"

check "weights go to a second file where one would be too large"
runs "$grail" export "$vit" -o split.onnx --set head_dim=16 --largest 10K --json
says '"split": true' stdout
says '"side": 24' stdout
(($(stat -c %s split.onnx) < 20000 && $(stat -c %s split.onnx.data) > 60000)) || fail "$(ls -l)"

check "the same model gives the same bytes"
runs "$grail" export "$vit" -o again.onnx --set head_dim=16
cmp net.onnx again.onnx || fail "bytes differ"

check "an existing file is left alone"
before=$(sha256sum net.onnx)
refuses 1 "'net.onnx' exists; remove it or give another name" \
    "$grail" export "$vit" -o net.onnx --set head_dim=16
[[ $(sha256sum net.onnx) == "$before" ]] || fail "the existing file was changed"

check "a file that cannot be written is named"
refuses 2 "grail export: give --output FILE; see" "$grail" export "$vit"
refuses 1 "cannot write a decoder as ONNX, only a network that reads images; convert the checkpoint with a tool for decoders" \
    "$grail" export "$golden/llama3" -o out --to onnx
refuses 1 "reads images, and only language models are written as GGUF; write it as ONNX" \
    "$grail" export "$vit" -o out --set head_dim=16 --to gguf
refuses 1 "use images of the size that the network was trained on" \
    "$grail" export "$vit" -o out --set head_dim=16 --side 32
refuses 1 "cannot create" "$grail" export "$vit" -o nowhere/out --set head_dim=16

check "a name that contradicts what is written"
refuses 1 "'no.gguf': an ONNX file is written; give a name that ends in .onnx" "$grail" export "$vit" -o no.gguf --set head_dim=16
refuses 1 "'no.ONNX': a GGUF file is written; give a name that ends in .gguf" "$grail" export "$demo/model" -o no.ONNX
refuses 1 "'no.bin': a GGUF file is written" "$grail" quantize "$demo/model" --type q4_0 --calib "$demo/calibration.txt" -o no.bin
refuses 1 "'no.json': a GGUF file of statistics is written" "$grail" gram "$demo/model" --calib "$demo/calibration.txt" -o no.json
refuses 1 "is written; give a name without .pth" "$grail" heal "$demo/model" --teacher "$demo/model" --calib "$demo/calibration.txt" -o no.pth
refuses 1 "'no.npy': a safetensors file is written; give a name that ends in .safetensors" "$grail" logits "$vit" --set head_dim=16 --pixels none.safetensors -o no.npy
touch there.safetensors
refuses 1 "'there.safetensors' exists; remove it or give another name" "$grail" logits "$vit" --set head_dim=16 --pixels none.safetensors -o there.safetensors
! ls | grep -q "^no\." || fail "$(ls)"
runs "$grail" export "$demo/model" -o named-otherwise

check "a full disk leaves nothing"
(
    ulimit -f 16
    run "$grail" export "$vit" -o full.onnx --set head_dim=16
    ((code == 1)) || fail "exit code $code"
)
[[ ! -e full.onnx && ! -e full.onnx.tmp ]] || fail "$(ls)"

check "a network in F64 is that in F32: measured, narrowed, written as GGUF; results keep F64"
copy_model "$demo/model" f64
copy_model "$demo/model" f32
python3 - <<'PYTHON'
import json, struct
source = open("f32/model.safetensors", "rb").read()
size, = struct.unpack("<Q", source[:8])
header = json.loads(source[8:8 + size])
for kind, letter, width in (("F32", "f", 4), ("F64", "d", 8)):
    out, data = {"__metadata__": {"format": "pt"}}, b""
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        raw = source[8 + size + begin:8 + size + end]
        if entry["dtype"] == "BF16":
            words = struct.unpack(f"<{len(raw) // 2}H", raw)
            values = struct.unpack(f"<{len(words)}f", struct.pack(f"<{len(words)}I", *(w << 16 for w in words)))
        else:
            letters = {"F16": ("e", 2), "F32": ("f", 4)}[entry["dtype"]]
            values = struct.unpack(f"<{len(raw) // letters[1]}{letters[0]}", raw)
        packed = struct.pack(f"<{len(values)}{letter}", *values)
        out[name] = {"dtype": kind, "shape": entry["shape"], "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(out).encode()
    text += b" " * (-len(text) % 8)
    open(f"{kind.lower()}/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data)
PYTHON
for kind in f32 f64; do
    runs "$grail" compress $kind -o "narrow-$kind" --sparsity 0.5 --calib "$demo/calibration.txt" --samples 4 --context 32 --quiet
    runs "$grail" eval "narrow-$kind" --data "$demo/calibration.txt" --windows 4 --context 32 --quiet --json
    field perplexity stdout >"$kind.perplexity"
    runs "$grail" export "$kind" -o "$kind.gguf"
    says "F32" stdout
done
cmp f32.perplexity f64.perplexity || fail "another perplexity"
runs "$grail" inspect narrow-f64
says ", F64, " stdout
runs "$grail" verify f32 f64 --quiet
says "max abs difference 0," stdout
refuses 1 "(F64) cannot be quantised: only matrices in F32, F16 or BF16" "$grail" quantize f64 --type w8a16 \
    --calib "$demo/calibration.txt" --samples 4 --context 32 -o out
