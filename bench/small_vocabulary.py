#!/usr/bin/env python3
"""Takes the tokens of some texts alone out of a decoder, so that it can be measured in a tenth of the time.

    small_vocabulary.py MODEL OUTPUT TEXT=WINDOWS ... [--context 512] [--no-bos]

Writes OUTPUT with a table of embeddings (and a head) of the tokens in the first WINDOWS of each text, in the order of their ids, and
OUTPUT/TEXT.npy with the texts as ids, every window behind the token that begins a text. Perplexities are lower than with all
tokens; what repairs and choices change in them is alike. Needs numpy, torch, safetensors and transformers.
"""
import argparse
import json
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer


def windows_of(tokenizer, text, count, context, bos):
    """ids[count, context], the first token of each being BOS where there is one."""
    room = context - (bos is not None)
    ids = tokenizer(Path(text).read_text()[: 8 * count * context], add_special_tokens=False)["input_ids"]
    count = min(count, len(ids) // room)
    rows = np.array(ids[: count * room], dtype=np.int64).reshape(count, room)
    return rows if bos is None else np.hstack([np.full((count, 1), bos), rows])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("texts", nargs="+")
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--no-bos", action="store_true")
    given = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(given.model)
    config = json.loads((given.model / "config.json").read_text())
    bos = None if given.no_bos else config["bos_token_id"]
    texts = {}
    for text in given.texts:
        path, count = text.rsplit("=", 1)
        texts[Path(path).stem] = windows_of(tokenizer, path, int(count), given.context, bos)
    special = [i for i in (config.get(k) for k in ("bos_token_id", "eos_token_id", "pad_token_id")) if isinstance(i, int)]
    used = np.unique(np.concatenate([special, *(t.reshape(-1) for t in texts.values())]))
    given.output.mkdir(parents=True)
    tensors = load_file(given.model / "model.safetensors")
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        if name in tensors:
            tensors[name] = tensors[name][torch.from_numpy(used)].contiguous()
    save_file(tensors, given.output / "model.safetensors", metadata={"format": "pt"})
    config["vocab_size"] = len(used)
    for key in ("bos_token_id", "eos_token_id", "pad_token_id"):
        if isinstance(config.get(key), int):
            config[key] = int(np.searchsorted(used, config[key]))
    (given.output / "config.json").write_text(json.dumps(config, indent=1))
    for name, ids in texts.items():
        np.save(given.output / f"{name}.npy", np.searchsorted(used, ids).reshape(-1).astype(np.int32))
    print(f"{len(used)} tokens")


if __name__ == "__main__":
    main()
