#!/usr/bin/env python3
"""Trains the demonstration model on make_stories.py's text and writes a Hugging Face directory.

A Llama with 20 query heads in 10 key-value groups, so that cuts of 20, 30 and 50 % remove complete
groups. Needs torch, numpy, tokenizers and safetensors; one CPU thread, about 20 minutes.

usage: train_demo.py [--steps N] [--output demo/model]
"""

import argparse
import json
import math
import pathlib
import time

import numpy
import safetensors.torch
import tokenizers
import torch
from torch.nn import functional

import make_stories

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 512,
    "hidden_size": 160,
    "intermediate_size": 480,
    "num_hidden_layers": 4,
    "num_attention_heads": 20,
    "num_key_value_heads": 10,
    "head_dim": 8,
    "hidden_act": "silu",
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "attention_bias": False,
    "mlp_bias": False,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "torch_dtype": "float16",
}
BOS, EOS = "<|begin_of_text|>", "<|end_of_text|>"
STORY_END = "\n\n"
# Llama 3's pattern: contractions, words, up to three digits, punctuation, line ends, blanks.
PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
           r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TRAIN_SEED, CALIBRATION_SEED, HELD_OUT_SEED = 1, 2, 3
CONTEXT, BATCH = 256, 16
PEAK_RATE, WARMUP, DECAY = 6e-3, 100, 0.1


# ---- tokenizer

def train_tokenizer(text):
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([
        tokenizers.pre_tokenizers.Split(tokenizers.Regex(PATTERN), behavior="isolated"),
        tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=CONFIG["vocab_size"], special_tokens=[BOS, EOS], show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(stories(text), trainer)
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A {BOS}:1 $B:1", special_tokens=[(BOS, 0)])
    assert tokenizer.token_to_id(BOS) == CONFIG["bos_token_id"]
    assert tokenizer.get_vocab_size() == CONFIG["vocab_size"]
    return tokenizer


def stories(text):
    """Each with the blank line after it. No pre-token reaches beyond one, so the pieces can be
    encoded alone."""
    return [story + STORY_END for story in text.rstrip("\n").split(STORY_END)]


def encode(tokenizer, text):
    """The ids of the entire text, without BOS."""
    encodings = tokenizer.encode_batch(stories(text), add_special_tokens=False)
    return numpy.concatenate([numpy.array(e.ids, numpy.int16) for e in encodings])


# ---- model, with the tensor names of Hugging Face

class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        hidden, self.head_dim = CONFIG["hidden_size"], CONFIG["head_dim"]
        self.group = CONFIG["num_attention_heads"] // CONFIG["num_key_value_heads"]
        query = CONFIG["num_attention_heads"] * self.head_dim
        key = CONFIG["num_key_value_heads"] * self.head_dim
        self.q_proj = torch.nn.Linear(hidden, query, bias=False)
        self.k_proj = torch.nn.Linear(hidden, key, bias=False)
        self.v_proj = torch.nn.Linear(hidden, key, bias=False)
        self.o_proj = torch.nn.Linear(query, hidden, bias=False)

    def rotate(self, x, cosine, sine):
        first, second = x.chunk(2, -1)
        return torch.cat([first * cosine - second * sine, second * cosine + first * sine], -1)

    def forward(self, x, cosine, sine):
        shape = (*x.shape[:2], -1, self.head_dim)
        q, k, v = (project(x).view(shape).transpose(1, 2)
                   for project in (self.q_proj, self.k_proj, self.v_proj))
        q, k = self.rotate(q, cosine, sine), self.rotate(k, cosine, sine)
        mixed = self.mix((q * self.head_dim**-0.5).to(v.dtype), k.to(v.dtype), v)
        return self.o_proj(mixed.transpose(1, 2).reshape(*x.shape[:2], -1))

    def mix(self, q, k, v):
        """Sequence by sequence, so that the scores stay in the cache: with 8 features a head this
        is three times as fast as torch's fused attention. q [B, H, T, 8]; k, v [B, KV, T, 8]."""
        length, groups = q.shape[2], k.shape[1]
        mask = torch.full((length, length), float("-inf"), dtype=q.dtype).triu(1)
        mask = mask.repeat(self.group, 1).expand(groups, -1, -1)
        mixed = []
        for query, key, value in zip(q.unbind(0), k.unbind(0), v.unbind(0)):
            query = query.reshape(groups, self.group * length, self.head_dim)
            scores = torch.baddbmm(mask, query, key.transpose(1, 2))
            mixed.append((scores.softmax(-1) @ value).view(-1, length, self.head_dim))
        return torch.stack(mixed)


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        hidden, inner = CONFIG["hidden_size"], CONFIG["intermediate_size"]
        self.gate_proj = torch.nn.Linear(hidden, inner, bias=False)
        self.up_proj = torch.nn.Linear(hidden, inner, bias=False)
        self.down_proj = torch.nn.Linear(inner, hidden, bias=False)

    def forward(self, x):
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class RmsNorm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(CONFIG["hidden_size"]))

    def forward(self, x):
        scale = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + CONFIG["rms_norm_eps"])
        return (x * scale).to(x.dtype) * self.weight


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.input_layernorm = RmsNorm()
        self.self_attn = Attention()
        self.post_attention_layernorm = RmsNorm()
        self.mlp = Mlp()

    def forward(self, x, cosine, sine):
        x = x + self.self_attn(self.input_layernorm(x), cosine, sine)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.model = torch.nn.Module()
        self.model.embed_tokens = torch.nn.Embedding(CONFIG["vocab_size"], CONFIG["hidden_size"])
        self.model.layers = torch.nn.ModuleList(
            Layer() for _ in range(CONFIG["num_hidden_layers"]))
        self.model.norm = RmsNorm()
        self.lm_head = torch.nn.Linear(CONFIG["hidden_size"], CONFIG["vocab_size"], bias=False)
        half = CONFIG["head_dim"] // 2
        frequencies = CONFIG["rope_theta"] ** (-torch.arange(half) / half)
        angles = torch.arange(CONTEXT)[:, None] * frequencies
        self.register_buffer("cosine", angles.cos(), persistent=False)
        self.register_buffer("sine", angles.sin(), persistent=False)
        self.initialise()

    def initialise(self):
        residual = (2 * CONFIG["num_hidden_layers"]) ** -0.5
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                into_stream = "o_proj" in name or "down_proj" in name
                deviation = 0.02 if "embed" in name or "lm_head" in name \
                    else weight.shape[1] ** -0.5 * (residual if into_stream else 1.0)
                torch.nn.init.normal_(weight, std=deviation)

    def forward(self, ids):
        x = self.model.embed_tokens(ids)
        for layer in self.model.layers:
            x = layer(x, self.cosine[:ids.shape[1]], self.sine[:ids.shape[1]])
        return self.lm_head(self.model.norm(x))


# ---- training

def learning_rate(step, steps):
    if step < WARMUP:
        return PEAK_RATE * (step + 1) / WARMUP
    return PEAK_RATE * 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / (steps - WARMUP)))


def batches(stream, steps, random):
    """Windows of one pass over the ids in random order; half of them start with BOS."""
    starts = random.permutation((len(stream) - 1) // CONTEXT)[:steps * BATCH] * CONTEXT
    assert len(starts) == steps * BATCH, "the training text is too short for so many steps"
    for step in range(steps):
        rows = starts[step * BATCH:(step + 1) * BATCH, None] + numpy.arange(CONTEXT + 1)
        window = torch.from_numpy(stream[rows].astype(numpy.int64))
        ids, targets = window[:, :-1].clone(), window[:, 1:]
        ids[:BATCH // 2, 0] = CONFIG["bos_token_id"]
        yield ids, targets


def loss_of(model, ids, targets):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(ids)
    return functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def train(stream, steps):
    model = Decoder()
    print(f"{sum(p.numel() for p in model.parameters())} parameters, {steps} steps, "
          f"{steps * BATCH * CONTEXT} of {len(stream)} tokens", flush=True)
    groups = [{"params": [p for p in model.parameters() if p.dim() == 2], "weight_decay": DECAY},
              {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.95), fused=True)
    began, recent = time.time(), []
    for step, (ids, targets) in enumerate(batches(stream, steps, numpy.random.RandomState(4))):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps)
        loss = loss_of(model, ids, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        recent.append(loss.item())
        if (step + 1) % 25 == 0:
            print(f"step {step + 1} loss {numpy.mean(recent):.4f} "
                  f"{time.time() - began:.0f} s", flush=True)
            recent = []
    return model


# ---- files

def write_json(folder, name, value):
    (folder / name).write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def write_model(model, tokenizer, folder):
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: value.to(torch.float16).contiguous()
               for name, value in model.state_dict().items()}
    safetensors.torch.save_file(weights, str(folder / "model.safetensors"),
                                metadata={"format": "pt"})
    # Merges as "a b", which every release reads, where newer ones write pairs.
    description = json.loads(tokenizer.to_str())
    merges = description["model"]["merges"]
    description["model"]["merges"] = [m if isinstance(m, str) else " ".join(m) for m in merges]
    write_json(folder, "tokenizer.json", description)
    # EOS is never trained on: a story ends with a full stop and a blank line, which is one token.
    stop = tokenizer.encode("." + STORY_END, add_special_tokens=False).ids
    assert len(stop) == 1
    write_json(folder, "config.json", CONFIG)
    write_json(folder, "generation_config.json", {
        "bos_token_id": CONFIG["bos_token_id"], "eos_token_id": [CONFIG["eos_token_id"], *stop],
        "pad_token_id": CONFIG["eos_token_id"], "do_sample": False, "max_new_tokens": 200})
    write_json(folder, "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": BOS, "eos_token": EOS,
        "model_max_length": CONTEXT, "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"]})
    write_json(folder, "special_tokens_map.json", {"bos_token": BOS, "eos_token": EOS})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=2800)
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("demo/model"))
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    bytes_per_token = 2.5  # a little more than the tokenizer reaches
    size = int(options.steps * BATCH * CONTEXT * bytes_per_token)
    text = make_stories.make_stories(TRAIN_SEED, size)
    tokenizer = train_tokenizer(text[:2_000_000])
    stream = encode(tokenizer, text)
    print(f"{len(text) / len(stream):.3f} bytes per token", flush=True)
    write_model(train(stream, options.steps), tokenizer, options.output)
    demo = options.output.parent
    for name, seed, length in (("calibration.txt", CALIBRATION_SEED, 150_000),
                               ("held-out.txt", HELD_OUT_SEED, 60_000)):
        (demo / name).write_text(make_stories.make_stories(seed, length), encoding="utf-8")


if __name__ == "__main__":
    main()
