#!/usr/bin/env bash
# grail quantize: the file opens, is nearer to the dense model than one that is rounded without samples,
# and what cannot be meant is refused. A run that is killed is continued, and one for which there is no room leaves no file.
#
# usage: test_quantize.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

demo=$source_dir/demo
quantize=("$grail" quantize "$demo/model" --calib "$demo/calibration.txt" --samples 64 --context 128 --quiet)

check "feedback comes nearer to the dense model than rounding alone"
runs "${quantize[@]}" --type q4_0 -o rounded.gguf
says "rounded.gguf: llama, Q4_0, " stdout
runs "$grail" export "$demo/model" --type q4_0 -o plain.gguf
cmp <(head -c 2000 plain.gguf) <(head -c 2000 rounded.gguf) || fail "other keys"
(($(stat -c %s rounded.gguf) == $(stat -c %s plain.gguf))) || fail "$(ls -l)"
divergence() {
    "$grail" verify "$demo/model" "$1" --data "$demo/held-out.txt" --context 128 --windows 16 --json 2>/dev/null |
        sed -n 's/^ *"mean_kl": \([^,]*\).*/\1/p'
}
awk "BEGIN { exit !($(divergence rounded.gguf) < 0.8 * $(divergence plain.gguf)) }" ||
    fail "$(divergence rounded.gguf), without samples $(divergence plain.gguf)"

check "the same inputs give the same bytes"
runs "${quantize[@]}" --type q4_0 -o again.gguf
cmp rounded.gguf again.gguf || fail "other bytes"

check "narrowed layers of different widths"
runs "$grail" compress "$demo/model" -o layers --sparsity model.layers.1.mlp.down_proj=0.5 --compensate none --selector magnitude-l1 --align 32 --quiet
runs "$grail" quantize layers --calib "$demo/calibration.txt" --samples 16 --context 128 --type q8_0 -o layers.gguf --json
says '"architecture": "deci"' stdout
runs "$grail" eval layers.gguf --data "$demo/held-out.txt" --windows 2

check "what cannot be meant"
refuses 2 "--type" "${quantize[@]}" -o no.gguf
refuses 2 "q5_k" "${quantize[@]}" --type q5_k -o no.gguf
refuses 2 "--calib" "$grail" quantize "$demo/model" --type q4_0 -o no.gguf
refuses 1 "exists" "${quantize[@]}" --type q4_0 -o plain.gguf
refuses 1 "it is a GGUF file, and integers in groups stand in a directory" "$grail" quantize plain.gguf --calib "$demo/calibration.txt" --samples 8 --context 64 --type w4a16 -o no --quiet
refuses 1 "reads images" "$grail" quantize "$demo/vision/cnn.pth" --calib "$demo/vision/calibration" --preset cifar --type q4_0 -o no.gguf --quiet
refuses 1 "blocks of Q4_K, of 256, do not fill" "${quantize[@]}" --type q4_0 --table-type q4_k -o no.gguf
refuses 1 "in a directory of w4a16 the table of embeddings and the head stay as they are" "${quantize[@]}" --type w4a16 --table-type q8_0 -o no
[[ ! -e no.gguf ]] || fail "leaves a file"

check "no room for the file: refused before the pass, and nothing is left"
refuses 1 "File too large" bash -c 'ulimit -f 16 && exec "$@" --type q4_0 -o out' - "${quantize[@]}"
[[ -z $(find . -name '.grail-*.tmp') && ! -e out ]] || fail "left a file"

check "killed at any moment, and continued to the same bytes"
few=("$grail" quantize "$demo/model" --calib "$demo/calibration.txt" --samples 16 --context 128 --quiet)
runs "${few[@]}" --type q4_0 -o whole
for lines in 0 2 4 6; do
    rm -rf out out.partial
    {
        "${few[@]}" --type q4_0 -o out >/dev/null 2>&1 &
        until (($(cat out.partial/grail-state.jsonl 2>/dev/null | wc -l) >= lines)); do kill -0 $! || break; done
        kill -KILL $!
        wait
    } 2>/dev/null || true
    if [[ ! -e out && $lines == 4 ]]; then
        refuses 1 "'out.partial' holds an interrupted run; resume it or delete it (--resume)" "${few[@]}" --type q4_0 -o out
        refuses 1 'output.quantize was "q4_0" and is now "q8_0"' "${few[@]}" --type q8_0 -o out --resume
        refuses 1 'table_type was null and is now "Q8_0"; use the options and files of the interrupted run, or delete its directory (--table-type)' \
            "${few[@]}" --type q4_0 --table-type q8_0 -o out --resume
    fi
    [[ -e out && ! -e out.partial ]] || runs "${few[@]}" --type q4_0 -o out --resume
    cmp out whole || fail "other bytes"
    [[ ! -e out.partial ]] || fail "out.partial is left"
    rm out
done

check "a NaN in the weights"
copy_model "$demo/model" damaged
patch_tensor damaged/model.safetensors model.layers.1.mlp.up_proj.weight ff ff ff ff
refuses 3 "model.layers.1.mlp.up_proj.weight" "$grail" quantize damaged --calib "$demo/calibration.txt" --samples 16 --context 128 --type q4_0 -o out --quiet
[[ ! -e out ]] || fail "left a file"

# -- directories of compressed-tensors ------------------------------------------------------------

pack=("$grail" quantize "$demo/model" --calib "$demo/calibration.txt" --samples 16 --context 128 --quiet --precision f32)
narrow=("$grail" compress "$demo/model" --calib "$demo/calibration.txt" --samples 16 --context 128 --quiet --precision f32
    --sparsity ffn=0.3,heads=0.2 --align 32)
held_out() {
    perplexity "$1" "$demo/held-out.txt" --context 128 --windows 32
}

check "a directory of compressed-tensors is read again, and is near the dense model"
runs "${pack[@]}" --type w4a16 -o w4
says "w4a16, 1.02 MB, 28 matrices in groups of 32" stdout
grep -q '"group_size": 32' w4/config.json || fail "$(cat w4/config.json)"
runs "$grail" inspect w4
says "W4_G32" stdout
awk "BEGIN { exit !($(held_out w4) < 1.01 * $(held_out "$demo/model")) }" || fail "$(held_out w4)"
runs "${pack[@]}" --type w8a16 -o w8
awk "BEGIN { exit !($(held_out w8) < 1.001 * $(held_out "$demo/model")) }" || fail "$(held_out w8)"

check "a model whose weights are packed is narrowed and exported"
runs "$grail" compress w4 -o plain --type f16 --sparsity 0.3 --compensate none --selector magnitude-l1 --quiet
! grep -q quantization_config plain/config.json || fail "says that it is quantised"
runs "$grail" export w4 --type f16 -o w4.gguf
refuses 1 "choose the type that weights of the result have" "$grail" compress w4 -o no --sparsity 0.3 --compensate none --selector magnitude-l1 --quiet

check "narrowed, repaired and quantised together is as good as one after the other"
runs "${narrow[@]}" -o narrow
runs "$grail" quantize narrow --calib "$demo/calibration.txt" --samples 16 --context 128 --quiet --precision f32 --type w4a16 -o after
runs "${narrow[@]}" --quantize w4a16 -o together
awk "BEGIN { exit !($(held_out together) < 1.005 * $(held_out after)) }" || fail "$(held_out together), $(held_out after)"
grep -q '"type": "w4a16"' together/report.json || fail "the report does not say it"
grep -q '^## Quantisation' together/README.md || fail "the card does not say it"

check "killed after any block, and continued to the same bytes"
for blocks in 1 3; do
    rm -rf out out.partial
    (
        "${narrow[@]}" --quantize w4a16 -o out >/dev/null 2>&1 &
        until [[ $(wc -l <out.partial/grail-state.jsonl) -ge $((blocks + 3)) ]] 2>/dev/null; do kill -0 $! 2>/dev/null || break; done
        kill -KILL $! 2>/dev/null
        wait
    ) 2>/dev/null || true
    if [[ -e out.partial && $blocks == 1 ]]; then
        refuses 1 "output.quantize was \"w4a16\" and is now \"w8a16\"" "${narrow[@]}" --quantize w8a16 -o out --resume
    fi
    [[ -e out ]] || runs "${narrow[@]}" --quantize w4a16 -o out --resume
    cmp out/model.safetensors together/model.safetensors || fail "other bytes"
done

rm -rf out out.partial

check "widths that no group fills"
refuses 1 "112 features, which groups of 32 weights do not fill; 7 of 10 units are kept there: keep 6 or 8" \
    "$grail" compress "$demo/model" --calib "$demo/calibration.txt" --samples 8 --sparsity heads=0.3 --quantize w4a16 -o no
refuses 1 "did you mean 'w4a16'" "${narrow[@]}" --quantize w3a16 -o no
refuses 2 "--heal" "${narrow[@]}" --quantize w4a16 --heal block -o no
refuses 1 "units are merged" "$grail" compress "$demo/model" --calib "$demo/calibration.txt" --samples 8 --quiet \
    --sparsity ffn=0.333 --selector fold --quantize w4a16 -o no
[[ ! -e no && ! -e no.partial ]] || fail "leaves a directory"

# -- GGUF files out of a run that cuts --------------------------------------------------------------

# tensors FILE: name, shape, number of the type and checksum of each tensor of a GGUF file, by name
tensors() {
    python3 - "$1" <<'PYTHON'
import struct, sys, zlib
data, at = open(sys.argv[1], "rb").read(), 4
def take(form):
    global at
    value = struct.unpack_from("<" + form, data, at)
    at += struct.calcsize("<" + form)
    return value[0]
def text():
    global at
    length = take("Q")
    at += length
    return data[at - length:at].decode("utf-8", "replace")
def skip(kind):
    global at
    if kind == 8:
        text()
    elif kind == 9:
        kind, count = take("I"), take("Q")
        for _ in range(count):
            skip(kind)
    else:
        at += {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}[kind]
version, count, pairs = take("I"), take("Q"), take("Q")
for _ in range(pairs):
    text()
    skip(take("I"))
found = []
for _ in range(count):
    name, rank = text(), take("I")
    found.append([name, [take("Q") for _ in range(rank)], take("I"), take("Q")])
begin = (at + 31) // 32 * 32
ends = sorted([one[3] for one in found] + [len(data) - begin])
for name, shape, kind, place in sorted(found):
    end = ends[ends.index(place) + 1]
    print(name, shape, kind, zlib.crc32(data[begin + place:begin + end].rstrip(b"\0")))
PYTHON
}

check "a GGUF file out of a run that cuts is as good as one after the other, with the same types"
for type in q4_0 q5_0; do
    runs "$grail" quantize narrow --calib "$demo/calibration.txt" --samples 16 --context 128 --quiet --precision f32 --type $type -o after-$type.gguf
    runs "${narrow[@]}" --quantize $type -o gguf-$type
    cmp <(tensors after-$type.gguf | sed 's/[0-9]*$//') <(tensors gguf-$type/model.gguf | sed 's/[0-9]*$//') || fail "other tensors"
    holds "$(held_out gguf-$type) < 1.005 * $(held_out after-$type.gguf)"
done
[[ $(cd gguf-q4_0 && echo *) == "README.md calibration.hashes model.gguf plan.json report.json" ]] || fail "$(ls gguf-q4_0)"
grep -q '"type": "q4_0"' gguf-q4_0/report.json || fail "the report does not say it"
grep -q '^## Quantisation' gguf-q4_0/README.md || fail "the card does not say it"
! grep -q 'library_name' gguf-q4_0/README.md || fail "the card calls it a directory of transformers"
runs "$grail" inspect gguf-q4_0
says "gguf-q4_0: llama, Q4_0" stdout

check "where nothing is cut it has the tensors of grail quantize"
for type in q4_0 q5_0; do
    runs "$grail" quantize "$demo/model" --calib "$demo/calibration.txt" --samples 8 --context 64 --quiet --precision f32 --type $type -o plain-$type.gguf
    runs "$grail" compress "$demo/model" --calib "$demo/calibration.txt" --samples 8 --context 64 --quiet --precision f32 --sparsity 0 --quantize $type -o uncut-$type
    cmp <(tensors plain-$type.gguf) <(tensors uncut-$type/model.gguf) || fail "other tensors in $type"
done

check "its summary, its forecast and its quality"
runs "${narrow[@]}" --quantize q4_0 -o none --dry-run
says "llama.cpp     yes  the file as it is, as llama" stdout
[[ ! -e none ]] || fail "a dry run writes"
runs "${narrow[@]}" --quantize q8_0 -o measured --eval "$demo/held-out.txt" --windows 2
says "written: measured" stdout
grep -q '^## Quality' measured/README.md || fail "$(cat measured/README.md)"

check "a GGUF file is killed after any block, and continued to the same bytes"
for blocks in 1 2 3; do
    rm -rf out out.partial
    (
        "${narrow[@]}" --quantize q4_0 -o out >/dev/null 2>&1 &
        until [[ $(wc -l <out.partial/grail-state.jsonl) -ge $((blocks + 2)) ]] 2>/dev/null; do kill -0 $! 2>/dev/null || break; done
        kill -KILL $! 2>/dev/null
        wait
    ) 2>/dev/null || true
    if [[ -e out.partial && $blocks == 1 ]]; then
        refuses 1 "output.quantize was \"q4_0\" and is now \"q5_0\"" "${narrow[@]}" --quantize q5_0 -o out --resume
        refuses 1 "output.quantize was \"q4_0\" and is now \"w4a16\"" "${narrow[@]}" --quantize w4a16 -o out --resume
    fi
    [[ -e out ]] || runs "${narrow[@]}" --quantize q4_0 -o out --resume
    cmp out/model.gguf gguf-q4_0/model.gguf || fail "other bytes"
done
rm -rf out out.partial

check "a type that no matrix or only some can have"
cut=("$grail" compress "$demo/model" --sparsity ffn=0.4 --compensate none --selector magnitude-l1 --calib "$demo/calibration.txt" --samples 8 --context 64 --quiet)
refuses 1 "Q4_K would hold no matrix: 160 and 288 are no multiples of 256; use q5_0, or align widths to 256 (--align, --quantize)" "${cut[@]}" --quantize q4_k --align 8 -o no
refuses 1 "Q6_K would hold no matrix: 160 and 480 are no multiples of 256; use q8_0" \
    "$grail" quantize "$demo/model" --calib "$demo/calibration.txt" --samples 8 --context 64 --quiet --type q6_k -o no.gguf
some="2 of 29 matrices are Q4_K, 23 Q5_0, 2 Q8_0, 2 Q6_K, since 160 is no multiple of 256; use q5_0"
runs "${cut[@]}" --quantize q4_k --align 256 -o some
grep -qF "grail: warning: some: $some" stderr || fail "$(cat stderr)"
grep -qF '"shortfall": "'"$some"'"' some/report.json || fail "the report does not say it"
runs "${cut[@]}" -o some-cut --align 256
runs "$grail" export some-cut --type q4_k -o some.gguf --json
says '"type": "Q4_K"' stdout
says '"shortfall": "'"$some"'"' stdout
grep -qF "grail: warning: some.gguf: $some" stderr || fail "$(cat stderr)"
runs "$grail" export some-cut --type q5_0 -o whole.gguf
[[ ! -s stderr ]] || fail "$(cat stderr)"

check "a GGUF file that cannot be meant"
refuses 1 "blocks of 32 weights do not fill; 7 of 10 units are kept there: keep 6 or 8 (--quantize)" \
    "$grail" compress "$demo/model" --calib "$demo/calibration.txt" --samples 8 --sparsity heads=0.3 --quantize q4_0 -o no
refuses 1 "give a name without .gguf" "${narrow[@]}" --quantize q4_0 -o no.gguf
refuses 1 "give a name without .gguf" "${narrow[@]}" --quantize w4a16 -o no.gguf
refuses 2 "--heal" "${narrow[@]}" --quantize q4_0 --heal block -o no
refuses 1 "units are merged" "$grail" compress "$demo/model" --calib "$demo/calibration.txt" --samples 8 --quiet \
    --sparsity ffn=0.333 --selector fold --quantize q4_0 -o no

check "a GGUF file is the source"
runs "$grail" export "$demo/model" --type f32 -o source.gguf
runs "$grail" quantize source.gguf --calib "$demo/calibration.txt" --samples 8 --context 64 --quiet --precision f32 --type q4_0 -o from-file.gguf
runs "$grail" quantize "$demo/model" --calib "$demo/calibration.txt" --samples 8 --context 64 --quiet --precision f32 --type q4_0 -o from-directory.gguf
cmp <(tensors from-file.gguf) <(tensors from-directory.gguf) || fail "other tensors"
for from in source.gguf "$demo/model"; do
    rm -rf cut-of
    runs "$grail" compress "$from" --calib "$demo/calibration.txt" --samples 8 --context 64 --quiet --precision f32 --sparsity ffn=0.5 --quantize q4_0 -o cut-of
    tensors cut-of/*.gguf >"cut-of-${from##*/}"
done
cmp cut-of-source.gguf cut-of-model || fail "other tensors"
refuses 1 "reads images" "$grail" compress "$demo/vision/cnn.pth" --calib "$demo/vision/calibration" --preset cifar --sparsity conv=0.5 --quiet --quantize q4_0 -o no
refuses 3 "model.layers.1.mlp.up_proj.weight" "$grail" compress damaged --calib "$demo/calibration.txt" --samples 16 --context 128 --sparsity ffn=0.5 --quantize q4_0 -o no --quiet
refuses 1 "File too large" bash -c 'ulimit -f 16 && exec "$@" --quantize q4_0 -o no' - "${narrow[@]}"
[[ -z $(find . -maxdepth 1 -name 'no*' ! -name 'none') ]] || fail "leaves $(find . -maxdepth 1 -name 'no*')"

check "no room for the directory"
refuses 1 "File too large" bash -c 'ulimit -f 16 && exec "$@" --type w4a16 -o out-full' - "${pack[@]}"
[[ ! -e out-full ]] || fail "left a directory"

check "packed weights that lie"
tensor=model.layers.1.mlp.up_proj.weight
copy_model w4 lying
patch_tensor lying/model.safetensors ${tensor}_scale 00 7c
refuses 3 "$tensor" "$grail" eval lying --data "$demo/held-out.txt" --windows 1
copy_model w4 shape
patch_tensor shape/model.safetensors ${tensor}_shape ff ff ff ff ff ff ff 7f
refuses 1 "${tensor}_packed' is I32" "$grail" inspect shape
