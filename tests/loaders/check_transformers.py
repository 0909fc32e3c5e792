#!/usr/bin/env python3
"""Checks that Hugging Face transformers opens checkpoints and computes grail's logits.

  check_transformers.py ids DIRECTORY IDS.npy [--sequences N] [--length T] [--seed S]
      writes random token ids that suit the directory's vocabulary, int32 [N, T]
  check_transformers.py check --case DIRECTORY IDS.npy LOGITS.safetensors [--case ...]
      loads each directory in f32 and compares with the tensor "logits" F32 [N, T, vocabulary];
      exits with 1 unless every case passes

A case fails when the directory does not load, when a tensor is missing, left over or of another
shape than the configuration says, when a logit differs by more than the tolerance, or when
generate() fails. Where report.json says that the stock class does not load the directory, it fails
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


def write_ids(options):
    config = json.loads((options.directory / "config.json").read_text(encoding="utf-8"))
    random = numpy.random.RandomState(options.seed)
    ids = random.randint(0, config["vocab_size"], (options.sequences, options.length))
    numpy.save(options.output, ids.astype(numpy.int32))


def load(directory):
    """The model and, as text, what the loader had to make up or leave out."""
    import torch
    import transformers
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        directory, torch_dtype=torch.float32, attn_implementation="eager",
        output_loading_info=True)
    complaints = [f"{kind.replace('_', ' ')}: {sorted(map(str, names))[0]}"
                  for kind, names in info.items() if names]
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
    with torch.no_grad():
        logits = model(ids).logits.float()
        model.generate(ids[:1, :4], max_new_tokens=4, do_sample=False)
    if logits.shape != grail.shape:
        return name, parameters, float("nan"), \
            f"{logits_path} has shape {list(grail.shape)}, expected {list(logits.shape)}"
    difference = (logits - grail).abs().max().item()
    if complaints:
        return name, parameters, difference, complaints
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
    print(f"{'checkpoint':{width}}  {'class':20} {'parameters':>10} {'difference':>11}  result")
    failures = 0
    for name, case in zip(names, options.case):
        loaded, parameters, difference, wrong = judge_case(*case)
        failures += bool(wrong)
        right = "PASS" if says_loads(case[0]) else "PASS, does not load, as report.json says"
        result = f"FAIL {wrong}" if wrong else right
        print(f"{name:{width}}  {loaded:20} {parameters:10} {difference:11.2e}  {result}")
    print(f"{len(names) - failures} of {len(names)} passed")
    return 1 if failures else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True, metavar="ids|check")
    ids = commands.add_parser("ids")
    ids.add_argument("directory", type=pathlib.Path)
    ids.add_argument("output", type=pathlib.Path)
    ids.add_argument("--sequences", type=int, default=2)
    ids.add_argument("--length", type=int, default=40)
    ids.add_argument("--seed", type=int, default=0)
    ids.set_defaults(run=write_ids)
    checks = commands.add_parser("check")
    checks.add_argument("--case", nargs=3, action="append", required=True,
                        metavar=("DIRECTORY", "IDS", "LOGITS"))
    checks.set_defaults(run=check)
    options = parser.parse_args()
    return options.run(options)


if __name__ == "__main__":
    sys.exit(main())
