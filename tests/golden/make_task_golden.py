#!/usr/bin/env python3
"""The log-likelihoods of the choices of tasks/*.jsonl, as lm-evaluation-harness has them in float32.

Writes tasks/expected.json: for each task the log-likelihoods of every document, and acc, acc_stderr,
acc_norm and acc_norm_stderr. The network runs in transformers; contexts, continuations, the border
between their tokens, the limit of the context and the scores follow the harness's source (the
descriptions of its tasks, TemplateLM._encode_pair and HFLM._loglikelihood_tokens of release 0.4),
with the harness's own Python expressions, so that what strip, capitalize and regular expressions do is
not written twice by the same hand.

needs: torch, transformers
usage: make_task_golden.py [--model DIRECTORY] [--data DIRECTORY] [--limit N] [--output FILE] [TASK ...]
"""

import argparse
import json
import math
import pathlib
import re

import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
STORIES = HERE.parents[2] / "shared" / "data" / "stories260k"


def clean(text):
    text = text.strip()
    text = text.replace(" [title]", ". ")
    text = re.sub("\\[.*?\\]", "", text)
    return text.replace("  ", " ")


def same_context(context, choices, gold):
    return [(context, " " + choice) for choice in choices], choices, gold


def labelled(context, document):
    choices = document["choices"]
    return same_context(context, choices["text"], choices["label"].index(document["answerKey"].lstrip()))


def arc(document):
    return labelled(f"Question: {document['question']}\nAnswer:", document)


def hellaswag(document):
    context = document["ctx_a"] + " " + document["ctx_b"].capitalize()
    context = clean(document["activity_label"] + ": " + context)
    return same_context(context, [clean(e) for e in document["endings"]], int(document["label"]))


def piqa(document):
    context = f"Question: {document['goal']}\nAnswer:"
    return same_context(context, [document["sol1"], document["sol2"]], document["label"])


def boolq(document):
    context = f"{document['passage']}\nQuestion: {document['question']}?\nAnswer:"
    return same_context(context, ["no", "yes"], int(document["label"]))


def winogrande(document):
    sentence, options = document["sentence"], [document["option1"], document["option2"]]
    gap = sentence.index("_")
    rest = " " + sentence[gap + 1:].strip()
    return [(sentence[:gap] + o, rest) for o in options], options, int(document["answer"]) - 1


def own(document):
    return same_context(document["context"], document["choices"], int(document["answer"]))


TASKS = {
    "arc_easy": (arc, True), "arc_challenge": (arc, True), "hellaswag": (hellaswag, True),
    "piqa": (piqa, True), "boolq": (boolq, False), "winogrande": (winogrande, False),
    "openbookqa": (lambda d: labelled(d["question_stem"], d), True), "stories": (own, True),
}


class Scorer:
    def __init__(self, directory):
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
        self.longest = self.model.config.max_position_embeddings

    def encode_pair(self, context, continuation):
        spaces = len(context) - len(context.rstrip())
        if spaces > 0:
            continuation = context[-spaces:] + continuation
            context = context[:-spaces]
        whole = self.tokenizer.encode(context + continuation)
        alone = self.tokenizer.encode(context)
        return alone, whole[len(alone):]

    def log_likelihood(self, context, continuation):
        before, behind = self.encode_pair(context, continuation)
        ids = torch.tensor([(before + behind)[-(self.longest + 1):][:-1]])
        with torch.no_grad():
            scores = torch.log_softmax(self.model(ids).logits[0], dim=-1)[-len(behind):]
        return float(scores.gather(1, torch.tensor(behind)[:, None]).sum())


def shares(rights):
    n = len(rights)
    mean = sum(rights) / n
    deviation = math.sqrt(sum((r - mean) ** 2 for r in rights) / (n - 1))
    return mean, deviation / math.sqrt(n)


def measure(scorer, name, lines):
    form, normalised = TASKS[name]
    found, right, right_norm = [], [], []
    for line in lines:
        pairs, choices, gold = form(json.loads(line))
        values = [scorer.log_likelihood(*pair) for pair in pairs]
        per_character = [v / len(c) for v, c in zip(values, choices)]
        right.append(float(values.index(max(values)) == gold))
        right_norm.append(float(per_character.index(max(per_character)) == gold))
        found.append([round(v, 6) for v in values])
    acc, acc_stderr = shares(right)
    norm, norm_stderr = shares(right_norm) if normalised else (None, None)
    return {"acc": acc, "acc_stderr": acc_stderr, "acc_norm": norm, "acc_norm_stderr": norm_stderr,
            "log_likelihoods": found}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default=str(STORIES))
    parser.add_argument("--data", type=pathlib.Path, default=HERE / "tasks")
    parser.add_argument("--output", type=pathlib.Path, default=HERE / "tasks" / "expected.json")
    parser.add_argument("--limit", type=int)
    parser.add_argument("tasks", nargs="*", default=list(TASKS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    scorer = Scorer(options.model)
    lines = []
    for name in options.tasks or TASKS:
        text = (options.data / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        lines.append(f'"{name}": {json.dumps(measure(scorer, name, text[:options.limit]))}')
    options.output.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
