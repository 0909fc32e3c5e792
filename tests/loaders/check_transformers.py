#!/usr/bin/env python3
"""Checks that Hugging Face transformers opens checkpoints and computes grail's logits.

  check_transformers.py ids DIRECTORY IDS.npy [--sequences N] [--length T] [--seed S]
      writes random token ids that suit the directory's vocabulary, int32 [N, T]
  check_transformers.py text-ids DIRECTORY TEXT IDS.npy [--sequences N] [--length T]
      writes the first N windows of T tokens of a text, in the directory's own tokenizer
  check_transformers.py perplexity DIRECTORY IDS.npy EVAL.json
      measures it in f32 on windows of ids, and compares with what grail eval --json said; exits with
      1 when they differ by more than 1e-4 of it
  check_transformers.py check --case DIRECTORY IDS.npy LOGITS.safetensors [--case ...]
      loads each directory in f32 and compares with the tensor "logits" F32 [N, T, vocabulary],
      or, of an encoder, its last hidden states;
      exits with 1 unless every case passes

A case fails when the directory does not load, when a tensor is missing, left over or of another
shape than the configuration says, when a logit differs by more than the tolerance, or when
generate() gives other tokens with a dynamic cache, a static one or none. A directory that brings
classes of its own ("auto_map") is opened with trust_remote_code. Where report.json says that the stock class does not load the directory, it fails
unless one of these happens.
Run by hand, against the transformers release that users have; run.sh makes the cases.
"""

import argparse
import json
import pathlib
import platform
import sys

import numpy

TOLERANCE = 1e-4
ENCODERS = ("bert", "roberta", "xlm-roberta", "distilbert", "modernbert")


def write_ids(options):
    config = json.loads((options.directory / "config.json").read_text(encoding="utf-8"))
    random = numpy.random.RandomState(options.seed)
    first = 4 if is_encoder(options.directory) else 0  # RoBERTa gives its padding no position
    ids = random.randint(first, config["vocab_size"], (options.sequences, options.length))
    numpy.save(options.output, ids.astype(numpy.int32))


def write_text_ids(options):
    import transformers
    tokenizer = transformers.AutoTokenizer.from_pretrained(options.directory)
    text = options.text.read_text(encoding="utf-8")
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    count = options.sequences * options.length
    numpy.save(options.output, numpy.array(ids[:count], numpy.int32).reshape(-1, options.length))


def perplexity(options):
    import torch
    model, complaints = load(options.directory)
    losses = []
    for ids in torch.from_numpy(numpy.load(options.ids).astype(numpy.int64)):
        with torch.no_grad():
            logits = model(ids[None]).logits[0, :-1]
        losses.append(torch.nn.functional.cross_entropy(logits, ids[1:]).double())
    own = torch.stack(losses).mean().exp().item()
    grail = json.loads(options.evaluation.read_text(encoding="utf-8"))["perplexity"]
    wrong = complaints or ("" if abs(own - grail) < 1e-4 * grail else "they differ")
    print(f"{options.directory.name}: {type(model).__name__}, {model.num_parameters()} parameters, "
          f"perplexity {own:.6f}, grail {grail:.6f}: {'FAIL ' + wrong if wrong else 'PASS'}")
    return 1 if wrong else 0


def config_of(directory):
    return json.loads((pathlib.Path(directory) / "config.json").read_text(encoding="utf-8"))


def brings_classes(directory):
    return "auto_map" in config_of(directory)


def is_encoder(directory):
    return config_of(directory)["model_type"] in ENCODERS


def is_beside(names):
    """A pooler or a head, which not every checkpoint of an encoder has."""
    return not any("layer." in name or "layers." in name or "embeddings." in name
                   for name in map(str, names))


def caches_differ(model, ids):
    """What is wrong, or "", with tokens that are generated from the same ids."""
    import torch
    kinds = ({}, {"cache_implementation": "static"}, {"use_cache": False})
    texts = [model.generate(ids, max_new_tokens=8, do_sample=False, **kind) for kind in kinds]
    same = all(torch.equal(texts[0], text) for text in texts[1:])
    return "" if same else "generates other tokens with another cache"


def load(directory):
    """The model and, as text, what the loader had to make up or leave out."""
    import torch
    import transformers
    encodes = is_encoder(directory)
    model_class = transformers.AutoModel if encodes else transformers.AutoModelForCausalLM
    model, info = model_class.from_pretrained(
        directory, dtype=torch.float32, attn_implementation="eager", output_loading_info=True,
        trust_remote_code=brings_classes(directory))
    complaints = [f"{kind.replace('_', ' ')}: {sorted(map(str, names))[0]}"
                  for kind, names in info.items() if names and not (encodes and is_beside(names))]
    return model.eval(), "; ".join(complaints)


def says_loads(directory):
    """What report.json of a narrowed directory says of the stock class."""
    report = pathlib.Path(directory) / "report.json"
    return not report.exists() or json.loads(report.read_text())["loaders"][0]["loads"]


def judge_case(directory, ids_path, logits_path):
    *found, wrong = check_case(directory, ids_path, logits_path)
    if says_loads(directory):
        return *found, wrong
    return *found, "" if wrong else "loads, which report.json denies"


def check_case(directory, ids_path, logits_path):
    """(class, parameters, largest difference, what is wrong or "")"""
    import safetensors.torch
    import torch
    try:
        model, complaints = load(directory)
    except Exception as error:  # whatever the loader raises is the finding
        return "-", 0, float("nan"), " ".join(f"{type(error).__name__}: {error}".split())
    name, parameters = type(model).__name__, model.num_parameters()
    ids = torch.from_numpy(numpy.load(ids_path).astype(numpy.int64))
    grail = safetensors.torch.load_file(logits_path)["logits"]
    try:
        with torch.no_grad():
            output = model(ids)
            logits = output.last_hidden_state if is_encoder(directory) else output.logits
            other_text = "" if is_encoder(directory) else caches_differ(model, ids[:1, :4])
            logits = logits.float()
    except RuntimeError as error:
        return name, parameters, float("nan"), " ".join(f"it does not run: {error}".split())
    if logits.shape != grail.shape:
        return name, parameters, float("nan"), \
            f"{logits_path} has shape {list(grail.shape)}, expected {list(logits.shape)}"
    difference = (logits - grail).abs().max().item()
    if complaints or other_text:
        return name, parameters, difference, complaints or other_text
    # Written so that a NaN fails.
    wrong = "" if difference < TOLERANCE else f"differs by more than {TOLERANCE:g}"
    return name, parameters, difference, wrong


def check(options):
    import torch
    import transformers
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    print(f"transformers {transformers.__version__}, torch {torch.__version__}, "
          f"python {platform.python_version()}; tolerance {TOLERANCE:g} absolute")
    names = [pathlib.Path(case[0]).name for case in options.case]
    width = max(map(len, ["checkpoint", *names]))
    print(f"{'checkpoint':{width}}  {'class':23} {'parameters':>10} {'difference':>11}  result")
    failures = 0
    for name, case in zip(names, options.case):
        loaded, parameters, difference, wrong = judge_case(*case)
        failures += bool(wrong)
        right = "PASS" if says_loads(case[0]) else "PASS, does not load, as report.json says"
        result = f"FAIL {wrong}" if wrong else right
        print(f"{name:{width}}  {loaded:23} {parameters:10} {difference:11.2e}  {result}")
    print(f"{len(names) - failures} of {len(names)} passed")
    return 1 if failures else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True, metavar="ids|text-ids|perplexity|check")
    ids = commands.add_parser("ids")
    ids.add_argument("directory", type=pathlib.Path)
    ids.add_argument("output", type=pathlib.Path)
    ids.add_argument("--sequences", type=int, default=2)
    ids.add_argument("--length", type=int, default=40)
    ids.add_argument("--seed", type=int, default=0)
    ids.set_defaults(run=write_ids)
    text = commands.add_parser("text-ids")
    text.add_argument("directory", type=pathlib.Path)
    text.add_argument("text", type=pathlib.Path)
    text.add_argument("output", type=pathlib.Path)
    text.add_argument("--sequences", type=int, default=16)
    text.add_argument("--length", type=int, default=256)
    text.set_defaults(run=write_text_ids)
    measure = commands.add_parser("perplexity")
    measure.add_argument("directory", type=pathlib.Path)
    measure.add_argument("ids", type=pathlib.Path)
    measure.add_argument("evaluation", type=pathlib.Path)
    measure.set_defaults(run=perplexity)
    checks = commands.add_parser("check")
    checks.add_argument("--case", nargs=3, action="append", required=True,
                        metavar=("DIRECTORY", "IDS", "LOGITS"))
    checks.set_defaults(run=check)
    options = parser.parse_args()
    return options.run(options)


if __name__ == "__main__":
    sys.exit(main())
