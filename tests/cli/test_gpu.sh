#!/usr/bin/env bash
# What a user meets of a GPU, on PyTorch's processor in place of one (tests/support/fake_gpu.c): GPUs that are not there, a
# context that is lost, memory that is full, what doctor shows, and what --backend auto takes.
#
# usage: test_gpu.sh GRAIL SOURCE_DIRECTORY
. "$(dirname "$0")/lib.sh"

# write_large DIRECTORY: a llama of one layer with 36 million weights, all of them zero, in a file with a hole
write_large() {
    local width=64 inner=186000 at=0 header='{' name shape
    mkdir "$1"
    cat >"$1/config.json" <<-END
	{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 96, "hidden_size": $width,
	 "intermediate_size": $inner, "num_hidden_layers": 1, "num_attention_heads": 8, "num_key_value_heads": 8, "hidden_act": "silu",
	 "max_position_embeddings": 256, "rms_norm_eps": 0.001, "rope_theta": 10000.0, "tie_word_embeddings": true, "torch_dtype": "float16"}
	END
    while read -r name shape; do
        header+="\"model.$name.weight\":{\"dtype\":\"F16\",\"shape\":[$shape],\"data_offsets\":[$at,$((at += 2 * (${shape/,/*})))]},"
    done <<-END
	embed_tokens 96,$width
	norm $width
	layers.0.input_layernorm $width
	layers.0.post_attention_layernorm $width
	layers.0.self_attn.q_proj $width,$width
	layers.0.self_attn.k_proj $width,$width
	layers.0.self_attn.v_proj $width,$width
	layers.0.self_attn.o_proj $width,$width
	layers.0.mlp.gate_proj $inner,$width
	layers.0.mlp.up_proj $inner,$width
	layers.0.mlp.down_proj $width,$inner
	END
    header=${header%,}}
    {
        # shellcheck disable=SC2046 # eight words
        bytes $(printf '%02x %02x' $((${#header} % 256)) $((${#header} / 256))) 00 00 00 00 00 00
        printf '%s' "$header"
    } >"$1/model.safetensors"
    truncate -s $((8 + ${#header} + at)) "$1/model.safetensors"
}

check "auto takes the processor, and says why"
write_large large
write_ids ids.npy 1 8 96
automatic=("$grail" eval large --data ids.npy --quiet --threads 1 --precision f32 --backend auto)
mkdir path
printf '#!/bin/sh\necho "%s"\n' "${GRAIL_TORCH:-}" >path/python3
chmod +x path/python3
runs "$grail" eval "$demo/model" --data "$demo/held-out.txt" --windows 2 --context 64 --quiet --threads 1 --backend auto --torch none
says "grail: note: the backend is cpu: the network is small: 8.6e+10 products on 65536 tokens, and a GPU is worth its start from 2.2e+12 on" stderr
runs env -u GRAIL_TORCH PATH="$PWD/path:$PATH" "${automatic[@]}"
says "the backend is cpu: PyTorch was not looked for: GRAIL_TORCH does not name the directory of the package torch" stderr
runs "${automatic[@]}" --torch none
says "the backend is cpu: 'none' has no libtorch_cpu.so" stderr

[[ -n ${GRAIL_TORCH:-} ]] || skip "GRAIL_TORCH names no PyTorch"
measure=("$grail" eval "$demo/model" --data "$demo/held-out.txt" --windows 2 --context 64 --quiet --threads 1)
narrow=("$grail" compress "$demo/model" --calib "$demo/calibration.txt" --context 128 --samples 16 --sparsity 0.3 --quiet --threads 1
    --backend torch:cuda)

# on_gpu NAME=VALUE... COMMAND...: with a GPU
on_gpu() {
    env LD_PRELOAD="$GRAIL_TEST_GPU" "$@"
}

check "GPUs that are not there"
runs on_gpu "${measure[@]}" --backend torch:cuda:0
refuses 1 "there is no 'torch:cuda:9': PyTorch sees 1 GPU here" on_gpu "${measure[@]}" --backend torch:cuda:9
refuses 1 "PyTorch sees no GPU here: no such GPU in this test" on_gpu GRAIL_TEST_GPUS=0 "${measure[@]}" --backend torch:cuda
refuses 1 "the backend 'torch:cuda' has no device 64" on_gpu "${measure[@]}" --backend torch:cuda:64

check "doctor shows every device with its memory and rates"
rates="[0-9.e-]* TFLOP/s in bf16, [0-9.e-]* in f32, [0-9.e-]* in f64"
runs on_gpu "$grail" doctor --seconds 0.01
grep -qE "^devices    torch:cpu, .*B of .*B free, $rates$" stdout || { show; fail "torch:cpu is not shown"; }
grep -qE "^           torch:cuda:0, 268 MB of 1.07 GB free, $rates$" stdout || { show; fail "the GPU is not shown"; }
runs on_gpu GRAIL_TEST_GPUS=0 "$grail" doctor --seconds 0
says "not torch:cuda (f32, bf16, f16): PyTorch sees no GPU here: no such GPU in this test" stdout
[[ $(grep -c TFLOP stdout) == 0 && $(grep -c "torch:cuda:" stdout) == 0 ]] || { show; fail "measured what is not there"; }
runs on_gpu "$grail" doctor --seconds 0.01 --json
[[ $(tr -d ' \n' <stdout) == *'"backend":"torch:cuda:0","name":"","memory_free":268435456,"memory_total":1073741824,"missing":null,"bf16_tflops":0.'* ]] ||
    { show; fail "other JSON"; }

check "auto takes a GPU for a large network"
runs on_gpu "${automatic[@]}" --json
says "grail: note: the backend is torch:cuda: PyTorch sees a GPU, and the network is large enough for it" stderr
[[ $(field backend stdout) == *torch:cuda* ]] || fail "computed by $(field backend stdout)"
runs on_gpu GRAIL_TEST_GPUS=0 "${automatic[@]}"
says "the backend is cpu: PyTorch sees no GPU here: no such GPU in this test" stderr

check "transfers go by way of pinned memory, or without where there is none"
measured=$(runs on_gpu GRAIL_TEST_GPU_TELLS=1 "${measure[@]}" --backend torch:cuda --json && field perplexity stdout)
says "the GPU of tests: pinned, begun" stderr
for pieces in 0 2; do
    runs on_gpu GRAIL_TEST_GPU_TELLS=1 GRAIL_TEST_GPU_PINNED=$pieces "${measure[@]}" --backend torch:cuda --json
    [[ -n $measured && $(field perplexity stdout) == "$measured" ]] || fail "with $pieces pieces: $(field perplexity stdout)"
    ((pieces > 0)) || says "the GPU of tests: none pinned, none begun" stderr
done

check "a context that is lost ends the run with the first error, and the command that goes on"
runs on_gpu "${narrow[@]}" -o whole
run on_gpu GRAIL_TEST_GPU_COPIES=3000 "${narrow[@]}" -o out
((code == 1)) || { show; fail "exit code $code"; }
says "a copy failed: CUDA error: device-side assert triggered; the context of the GPU is lost, so only a new process can go on; 1 of 4 blocks are finished in 'out.partial', and the run can be resumed (--resume)" stderr
says "grail: continue it with:" stderr
(($(wc -l <stderr) == 3)) || { show; fail "more is said than the first error and how it goes on"; }
runs bash -c "LD_PRELOAD='$GRAIL_TEST_GPU' $(tail -n 1 stderr)"
same_result whole out

check "a run that goes on keeps the backend that it began with"
rm -r out
run on_gpu GRAIL_TEST_GPU_COPIES=3000 "${narrow[@]}" -o out
((code == 1)) || { show; fail "exit code $code"; }
runs on_gpu "${narrow[@]:0:${#narrow[@]}-1}" auto -o out --resume
says "grail: note: the backend is torch:cuda: the interrupted run began with it" stderr
same_result whole out

check "a GPU that is full gets fewer samples at once"
text=(--calib "$demo/calibration.txt" --context 128 --samples 128)
narrow=("$grail" compress "$demo/model" "${text[@]}" --memory 1 --sparsity 0.3 --quiet --threads 1 --backend torch:cuda)
rm -rf whole out
runs on_gpu "${narrow[@]}" -o whole
runs on_gpu GRAIL_TEST_GPU_MOST=6000000 "${narrow[@]}" -o out
says "grail: note: the memory of the device was full, so batches of samples went through it in parts of at most 16" stderr
runs "$grail" verify whole out --json
holds "$(field max_abs stdout) < 1e-2"
rm -r out
run on_gpu GRAIL_TEST_GPU_MOST=1000000 "${narrow[@]}" -o out
((code == 1)) || { show; fail "exit code $code"; }
says "bytes of memory failed: CUDA out of memory. Tried to allocate more than this test allows.; 256 of 1024 MiB of its memory are free" stderr
