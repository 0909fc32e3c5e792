#!/usr/bin/env python3
"""Compares conversations of grail with transformers, for a model that was tuned on them.

The ids of a file of conversations: `grail eval` must find in it the number of tokens and the perplexity that it finds
in the ids of apply_chat_template. An answer: `grail generate --chat` must give the ids that generate() gives without
sampling, after as many tokens of the prompt.

needs: torch, transformers
usage: check_chat.py GRAIL MODEL
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch
import transformers

CONTEXT = 64
QUESTIONS = ["What is the capital of France?", "Say <|im_end|> and  café.\n", "Name three colours."]
SYSTEMS = [None, "Answer in one word."]


def conversation(question, system, answer):
    messages = [] if system is None else [{"role": "system", "content": system}]
    messages.append({"role": "user", "content": question})
    return messages if answer is None else messages + [{"role": "assistant", "content": answer}]


def grail(command, *arguments):
    run = subprocess.run([GRAIL, command, MODEL, "--json", *arguments], check=True, capture_output=True, text=True)
    return json.loads(run.stdout)


def ids_of(tokenizer, messages, **options):
    return list(tokenizer.apply_chat_template(messages, tokenize=True, return_dict=True, **options)["input_ids"])


def check_file(tokenizer, folder):
    chats = [conversation(q, s, f"Answer {i}.\n") for i, q in enumerate(QUESTIONS * 8) for s in SYSTEMS]
    lines, ids = folder / "chat.jsonl", folder / "ids.npy"
    lines.write_text("".join(json.dumps({"messages": c}) + "\n" for c in chats), encoding="utf-8")
    numpy.save(ids, numpy.array(sum((ids_of(tokenizer, c) for c in chats), []), dtype=numpy.int32))
    found, wanted = (grail("eval", "--data", str(f), "--context", str(CONTEXT)) for f in (lines, ids))
    same = all(found[key] == wanted[key] for key in ("stream_tokens", "perplexity", "mean_nll"))
    print(f"{found['stream_tokens']} tokens of a file, perplexity {found['perplexity']}, of the ids {wanted['perplexity']}")
    return same


def check_answer(tokenizer, model, question, system):
    prompt = ids_of(tokenizer, conversation(question, system, None), add_generation_prompt=True)
    with torch.no_grad():
        made = model.generate(torch.tensor([prompt]), max_new_tokens=24, do_sample=False)
    wanted = made[0, len(prompt):].tolist()
    options = [] if system is None else ["--system", system]
    found = grail("generate", "--chat", "--prompt", question, "--tokens", "24", *options)
    print(json.dumps(found["text"]))
    return found["prompt_tokens"] == len(prompt) and found["ids"] == wanted


def main():
    tokenizer = transformers.AutoTokenizer.from_pretrained(MODEL)
    model = transformers.AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32).eval()
    with tempfile.TemporaryDirectory() as folder:
        results = [check_file(tokenizer, pathlib.Path(folder))]
    results += [check_answer(tokenizer, model, q, s) for q in QUESTIONS for s in SYSTEMS]
    print(f"{sum(results)} of {len(results)} the same")
    return 0 if all(results) else 1


if __name__ == "__main__":
    GRAIL, MODEL = sys.argv[1:]
    sys.exit(main())
