#!/usr/bin/env python3
"""Compares the greedy text of `grail generate` with that of transformers, in float32.

usage: check_generate.py GRAIL MODEL PROMPT [TOKENS]
Prints both texts and fails where a token differs. Where two tokens are nearly as likely, rounding may choose: then the
difference of their logits is printed, and below 1e-3 it does not count.
"""

import json
import subprocess
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def main():
    if len(sys.argv) not in (4, 5):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    grail, path, prompt = sys.argv[1:4]
    tokens = int(sys.argv[4]) if len(sys.argv) == 5 else 64
    made = json.loads(subprocess.run([grail, "generate", path, "--prompt", prompt, "--tokens", str(tokens), "--json"],
                                     check=True, capture_output=True).stdout)
    tokenizer = AutoTokenizer.from_pretrained(path)
    model = AutoModelForCausalLM.from_pretrained(path, torch_dtype=torch.float32).eval()
    given = tokenizer(prompt, return_tensors="pt")
    with torch.no_grad():
        expected = model.generate(**given, max_new_tokens=tokens, do_sample=False, repetition_penalty=1.0)[0].tolist()
    expected = expected[given["input_ids"].shape[1]:]
    print("grail:       ", repr(made["text"]))
    print("transformers:", repr(tokenizer.decode(expected, skip_special_tokens=True)))
    print(f"{made['tokens'] - 1} tokens behind the first in {made['seconds']:.2f} s")
    if made["ids"] == expected:
        return 0
    at = next((i for i, (a, b) in enumerate(zip(made["ids"], expected)) if a != b), None)
    if at is None:
        print(f"{len(made['ids'])} tokens instead of {len(expected)}")
        return 1
    with torch.no_grad():
        logits = model(torch.cat([given["input_ids"], torch.tensor([expected[:at]], dtype=torch.long)], 1)).logits[0, -1]
    apart = (logits[expected[at]] - logits[made["ids"][at]]).item()
    print(f"token {at} is {made['ids'][at]} instead of {expected[at]}; their logits differ by {apart:.2g}")
    return 0 if apart < 1e-3 else 1


if __name__ == "__main__":
    sys.exit(main())
