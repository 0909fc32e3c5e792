#!/usr/bin/env python3
"""What a model that answers loses when it is narrowed, calibrated on plain text, on conversations, or on both.

usage: chat.py GRAIL MODEL TEXT HELD_OUT_TEXT FOLDER [HEAL_STEPS]

The dense MODEL answers the prompts beside this script, drawn at a temperature of 0.7: three times those to calibrate on, and
twice every fifth, which is held out. FOLDER gets the conversations as JSON lines and, as apply_chat_template of transformers
makes them, as token ids. The model is narrowed to seven twelfths of its neurons and two thirds of its heads with 64 windows
of 512 tokens, and healed with HEAL_STEPS (0: not). Each network is measured on the answers to the held-out prompts
(perplexity, divergence from the dense network, how often both find the same token likeliest) and on HELD_OUT_TEXT, and
answers two prompts, the likeliest token each time.
What FOLDER already holds is not made again.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

CUT = ["--sparsity", "ffn=0.41667,heads=0.33334", "--align", "1"]
SAMPLES = ["--context", "512", "--samples", "64"]
LONGEST, AT_ONCE, SHOWN = 160, 40, 48
Conversation = list[dict[str, str]]


def load(directory: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, trust_remote_code=True).eval()


def ids_of(tokenizer: Any, messages: Conversation, answers: bool = False) -> list[int]:
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=answers)
    return list(tokenizer(text, add_special_tokens=False).input_ids)


def answer(model: Any, tokenizer: Any, prompts: list[str], most: int, **how: Any) -> list[str]:
    """The model's answers, of at most so many tokens."""
    texts: list[str] = []
    for first in range(0, len(prompts), AT_ONCE):
        asked = [ids_of(tokenizer, [{"role": "user", "content": p}], True) for p in prompts[first : first + AT_ONCE]]
        longest = max(map(len, asked))
        end = tokenizer.eos_token_id
        ids = torch.tensor([[end] * (longest - len(a)) + a for a in asked])
        mask = torch.tensor([[0] * (longest - len(a)) + [1] * len(a) for a in asked])
        made = model.generate(ids, attention_mask=mask, max_new_tokens=most, pad_token_id=end, **how)
        texts += tokenizer.batch_decode(made[:, longest:], skip_special_tokens=True)
    return texts


def make_conversations(path: Path, model: Any, tokenizer: Any, prompts: list[str]) -> None:
    """As JSON lines, and as ids beside them."""
    torch.manual_seed(0)
    texts = answer(model, tokenizer, prompts, LONGEST, do_sample=True, temperature=0.7, top_k=0)
    made = [
        [{"role": "user", "content": p}, {"role": "assistant", "content": t}]
        for p, t in zip(prompts, texts, strict=True)
    ]
    ids = [i for messages in made for i in ids_of(tokenizer, messages)]
    numpy.save(path.with_suffix(".npy"), numpy.array(ids, dtype=numpy.int32))
    path.write_text("".join(json.dumps({"messages": m}) + "\n" for m in made), encoding="utf-8")


def grail(*words: object) -> str:
    """What grail prints; its warnings go to the terminal."""
    return subprocess.run([str(w) for w in words], check=True, stdout=subprocess.PIPE, text=True).stdout


def scores_of(model: Any, tokenizer: Any, path: Path) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """For each conversation, the log-probabilities where the answer's tokens are predicted, and these tokens."""
    for line in path.read_text(encoding="utf-8").splitlines():
        messages = json.loads(line)["messages"]
        asked = len(ids_of(tokenizer, messages[:1], True))
        ids = torch.tensor(ids_of(tokenizer, messages))
        logits = model(ids[None]).logits[0]
        yield torch.log_softmax(logits[asked - 1 : -1], dim=-1), ids[asked:]


def measure(dense: Any, narrow: Any, tokenizer: Any, path: Path) -> tuple[float, float, float]:
    """Perplexity of the answers, divergence from the dense network in nats for each token, share of equal first choices."""
    loss = divergence = same = count = 0.0
    pairs = zip(scores_of(dense, tokenizer, path), scores_of(narrow, tokenizer, path), strict=True)
    for (of_dense, ids), (of_narrow, _) in pairs:
        loss -= float(of_narrow.gather(1, ids[:, None]).sum())
        divergence += float((of_dense.exp() * (of_dense - of_narrow)).sum())
        same += float((of_dense.argmax(1) == of_narrow.argmax(1)).sum())
        count += len(ids)
    return float(numpy.exp(loss / count)), divergence / count, same / count


def networks_of(program: str, dense: Path, text: Path, folder: Path, steps: int) -> Iterator[tuple[str, Path]]:
    """Makes the narrow networks that are not there; yields their names and directories."""
    yield "dense", dense
    ids = folder / "calibration.npy"
    calibrations = {"text": [text], "conversations": [ids], "both": [text, ids]}
    words = {name: [w for path in paths for w in ("--calib", path)] for name, paths in calibrations.items()}
    for name in calibrations:
        if not (folder / name).exists():
            grail(program, "compress", dense, "-o", folder / name, *words[name], *SAMPLES, *CUT, "--quiet")
        yield name, folder / name
    for name in calibrations if steps > 0 else []:
        healed = folder / f"{name}-healed"
        if not healed.exists():
            how = ["--teacher", dense, "--heal-steps", steps, "--quiet"]
            grail(program, "heal", folder / name, "-o", healed, *how, *words[name], *SAMPLES)
        yield f"{name}, healed", healed


def main() -> None:
    program, dense, text, held_text, folder = sys.argv[1], *(Path(a) for a in sys.argv[2:6])
    steps = int(sys.argv[6]) if len(sys.argv) > 6 else 0
    torch.set_grad_enabled(False)
    folder.mkdir(parents=True, exist_ok=True)
    prompts = Path(__file__).with_name("chat_prompts.txt").read_text(encoding="utf-8").splitlines()
    held = prompts[4::5]
    tokenizer, model = AutoTokenizer.from_pretrained(dense), load(dense)
    for name, asked in {"calibration": 3 * [p for p in prompts if p not in held], "held": 2 * held}.items():
        if not (folder / f"{name}.jsonl").exists():
            make_conversations(folder / f"{name}.jsonl", model, tokenizer, asked)
    shown = []
    print(
        "| network | answers: perplexity | divergence | same first choice | text: perplexity |\n|---|---|---|---|---|"
    )
    for name, directory in networks_of(program, dense, text, folder, steps):
        narrow = load(directory)
        perplexity, divergence, same = measure(model, narrow, tokenizer, folder / "held.jsonl")
        words = ["--context", 512, "--windows", 64, "--quiet", "--json"]
        of_text = json.loads(grail(program, "eval", directory, "--data", held_text, *words))["perplexity"]
        print(f"| {name} | {perplexity:.2f} | {divergence:.3f} | {100 * same:.1f} % | {of_text:.2f} |", flush=True)
        shown.append((name, answer(narrow, tokenizer, held[:2], SHOWN, do_sample=False)))
    for i in range(2):
        print(f"\n{held[i]}\n")
        for name, texts in shown:
            print(f"- {name}: {' '.join(texts[i].split())}")


if __name__ == "__main__":
    main()
