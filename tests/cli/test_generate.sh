#!/usr/bin/env bash
# grail generate on the demonstration model: greedy and drawn text, what it prints, and what it refuses.
#
# usage: test_generate.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

export OMP_NUM_THREADS=2
model=$demo/model
generate() { "$grail" generate "$model" --prompt "The dog saw" --tokens 12 "$@"; }

check "the prompt and what follows, the same each time"
runs generate
says "The dog saw" stdout
says "tokens of the prompt in" stderr
cp stdout first
runs generate --threads 1
cmp first stdout || fail "another text with one thread"
runs generate --temperature 0
cmp first stdout || fail "a temperature of 0 is not greedy"
runs generate --temperature 5 --top-k 1
cmp first stdout || fail "the most likely token alone is not greedy"

check "drawn text follows the seed"
runs generate --temperature 2 --seed 1
cp stdout drawn
runs generate --temperature 2 --seed 1
cmp drawn stdout || fail "the same seed gives another text"
runs generate --temperature 2 --seed 2
cmp -s drawn stdout && fail "another seed gives the same text"

check "--json has ids and text"
runs generate --json
says '"tokens": 12' stdout
says '"ids": [' stdout
[[ $(head -n 1 first) == "The dog saw$(sed -n 's/^  "text": "\([^"\\]*\).*/\1/p' stdout)"* ]] || { show; fail "another text"; }

check "a narrowed network goes on, too"
runs "$grail" compress "$model" -o narrow --calib "$demo/calibration.txt" --context 64 --samples 8 --sparsity 0.3 --quiet
runs "$grail" generate narrow --prompt "The dog saw" --tokens 4 --quiet
[[ ! -s stderr ]] || { show; fail "printed although it shall be quiet"; }
rm -rf narrow

check "what cannot be done is refused"
refuses 2 "give --prompt TEXT" "$grail" generate "$model"
refuses 1 "reads images, and goes on with no text" "$grail" generate "$demo/vision/vit" --prompt a --json
refuses 2 "--temperature takes a number" "$grail" generate "$model" --prompt a --temperature -1
refuses 2 "--top-p" "$grail" generate "$model" --prompt a --top-p 0.5 --temperature 0
refuses 2 "--top-p takes a number above 0 and below 1" "$grail" generate "$model" --prompt a --top-p 2 --temperature 1
refuses 1 "tokens, expected 1 to" "$grail" generate "$model" --json --prompt "$(printf 'word %.0s' $(seq 4000))"
refuses 1 "llama3" "$grail" generate "$golden/llama3" --prompt a --json

check "a full disk is an error"
code=0
generate >/dev/full 2>stderr || code=$?
((code == 1)) || { cat stderr; fail "exit code $code"; }

check "weights of NaN are an error that names the tensor"
copy_model "$model" nan
patch_tensor nan/model.safetensors model.layers.0.mlp.down_proj.weight ff ff ff ff
refuses 3 "layers.0.mlp.down_proj.weight" "$grail" generate nan --prompt "The dog" --json
