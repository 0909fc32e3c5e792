#!/usr/bin/env python3
"""Perplexities of small language models of several families, trained here on the bytes of a text,
narrowed with each kind of repair.

usage: bench/families.py GRAIL TEXT [--family NAME,...] [--steps N] [--sparsity S]
       [--sites KIND,...] [--keep DIRECTORY]

The text is split: nine tenths train, 64 windows of them calibrate, the rest is measured. Prints for
each family the perplexity (per byte) of the dense model and of those narrowed with wanda and
--compensate none, grail and full. Needs torch, transformers and numpy.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch
import transformers

CONTEXT, BATCH = 64, 8
SIZES = {"vocab_size": 256, "hidden_size": 64, "intermediate_size": 192, "num_hidden_layers": 3,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": CONTEXT,
         "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
FAMILIES = {
    "llama": {},
    "gemma3_text": {"head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 32,
                    "sliding_window_pattern": 2},
    "gemma2": {"head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 32},
    "olmo2": {},
    "glm4": {"head_dim": 16},
    "phi3": {},
    "gpt2": {"n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": CONTEXT, "n_inner": 256},
    "gpt_neox": {},
    "qwen3_moe": {"head_dim": 16, "moe_intermediate_size": 64, "num_experts": 8,
                  "num_experts_per_tok": 2, "norm_topk_prob": True, "output_router_logits": True},
    "olmo3": {"sliding_window": 32},
    "deepseek_v2": {"num_key_value_heads": 4, "kv_lora_rank": 32, "q_lora_rank": 48,
                    "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16,
                    "first_k_dense_replace": 1, "n_routed_experts": 4, "n_shared_experts": 1,
                    "num_experts_per_tok": 2, "moe_intermediate_size": 64,
                    "topk_method": "greedy", "n_group": 1, "topk_group": 1},
    "qwen2_moe": {"moe_intermediate_size": 64, "shared_expert_intermediate_size": 96,
                  "num_experts": 6, "num_experts_per_tok": 2, "output_router_logits": True},
}


def windows(data, count, generator):
    starts = torch.randint(0, len(data) - CONTEXT - 1, (count,), generator=generator)
    return torch.stack([data[s:s + CONTEXT] for s in starts])


def train(name, data, steps):
    torch.manual_seed(1)
    generator = torch.Generator().manual_seed(2)
    config = transformers.AutoConfig.for_model(name, **(SIZES | FAMILIES[name]))
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps)
    for _ in range(steps):
        ids = windows(data, BATCH, generator)
        loss = model(input_ids=ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return model.eval(), float(loss.detach())


def run(grail, *arguments):
    done = subprocess.run([grail, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, arguments))}: {done.stderr}")
    return done.stdout


def perplexity(grail, model, held):
    return json.loads(run(grail, "eval", model, "--data", held, "--json"))["perplexity"]


def measure(options, name, data, held, work):
    place = work / name
    model, loss = train(name, data, options.steps)
    model.save_pretrained(place)
    calibration = work / "calibration.npy"
    numpy.save(calibration, windows(data, 64, torch.Generator().manual_seed(3)).int().numpy())
    found = {"dense": perplexity(options.grail, place, held)}
    for compensate in ("none", "grail", "full"):
        out = work / f"{name}-{compensate}"
        run(options.grail, "compress", place, "-o", out, "--calib", calibration, "--context",
            CONTEXT, "--selector", "wanda", "--sparsity", options.sparsity, "--align", 1,
            *(["--sites", options.sites] if options.sites else []),
            "--compensate", compensate, "--quiet")
        found[compensate] = perplexity(options.grail, out, held)
    print(f"{name:12} loss {loss:.3f} " +
          " ".join(f"{key} {value:.3f}" for key, value in found.items()), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("grail", type=os.path.abspath)
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("--family", default=",".join(FAMILIES))
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--sparsity", default="0.3")
    parser.add_argument("--sites", help="kinds of sites, such as experts")
    parser.add_argument("--keep", type=pathlib.Path)
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    data = torch.from_numpy(
        numpy.frombuffer(options.text.read_bytes(), numpy.uint8).astype(numpy.int64))
    border = len(data) * 9 // 10
    with tempfile.TemporaryDirectory() as temporary:
        work = options.keep or pathlib.Path(temporary)
        work.mkdir(exist_ok=True)
        held = work / "held.npy"
        numpy.save(held, windows(data[border:], 64, torch.Generator().manual_seed(4)).int().numpy())
        for name in options.family.split(","):
            measure(options, name, data[:border], held, work)


if __name__ == "__main__":
    main()
