#!/usr/bin/env python3
"""How many of twenty questions with a checkable answer a narrowed model still answers, by what it was calibrated on.

usage: answers.py GRAIL MODEL TEXT CONVERSATIONS FOLDER OPTION...

MODEL is narrowed with the OPTIONs of grail compress (a cut, samples, an effort) on TEXT, on "self", which are
conversations that it draws, on TEXT and self, and on self and CONVERSATIONS (JSON lines with "messages", such as chat.py
makes). Each network, and MODEL itself, answers with its likeliest tokens, at most 24. What FOLDER already holds is not
made again.
"""

import re
import subprocess
import sys
from pathlib import Path

import torch
from chat import answer, load
from transformers import AutoTokenizer

QUESTIONS = {
    "What is the capital of France?": "Paris",
    "What is the capital of Italy?": "Rome",
    "What is the capital of Japan?": "Tokyo",
    "What is the capital of Germany?": "Berlin",
    "What is the capital of Spain?": "Madrid",
    "What is the capital of Egypt?": "Cairo",
    "What is the capital of Russia?": "Moscow",
    "What is the capital of the United Kingdom?": "London",
    "What colour is the sky on a clear day?": "blue",
    "What colour is grass?": "green",
    "What colour is fresh snow?": "white",
    "What colour is a ripe banana?": "yellow",
    "What colour is coal?": "black",
    "What colour is blood?": "red",
    "What is 2 + 3?": "5",
    "What is 1 + 1?": "2",
    "What is 4 + 4?": "8",
    "What is 10 - 3?": "7",
    "What is 5 + 5?": "10",
    "What is 3 times 3?": "9",
}
LONGEST, SHOWN = 24, ("What is the capital of France?", "What colour is grass?", "What is 4 + 4?")


def is_right(text: str, expected: str) -> bool:
    return re.search(rf"\b{expected}\b", text, re.IGNORECASE) is not None


def main() -> None:
    program, dense, text, talks, folder = sys.argv[1], *(Path(a) for a in sys.argv[2:6])
    torch.set_grad_enabled(False)
    folder.mkdir(parents=True, exist_ok=True)
    calibrations = {"text": [text], "self": ["self"], "text and self": [text, "self"]}
    calibrations["self and conversations"] = ["self", talks]
    places = {"dense": dense, **{name: folder / name.replace(" ", "-") for name in calibrations}}
    tokenizer = AutoTokenizer.from_pretrained(dense)
    shown = []
    print("| calibrated on | capitals | colours | sums | all |\n|---|---|---|---|---|")
    for name, place in places.items():
        if not place.exists():
            words = [str(w) for path in calibrations[name] for w in ("--calib", path)]
            subprocess.run([program, "compress", dense, "-o", place, *words, *sys.argv[6:], "--quiet"], check=True)
        said = answer(load(place), tokenizer, list(QUESTIONS), LONGEST, do_sample=False)
        right = [is_right(a, expected) for a, expected in zip(said, QUESTIONS.values(), strict=True)]
        counts = sum(right[:8]), sum(right[8:14]), sum(right[14:])
        of = " | ".join(f"{n} of {all}" for n, all in zip(counts, (8, 6, 6), strict=True))
        print(f"| {name} | {of} | {sum(right)} of 20 |", flush=True)
        shown.append((name, said))
    for question in SHOWN:
        print(f"\n{question}\n")
        for name, said in shown:
            print(f"- {name}: {' '.join(said[list(QUESTIONS).index(question)].split())}")


if __name__ == "__main__":
    main()
