#!/usr/bin/env python3
"""Compares tasks/expected.json with lm-evaluation-harness itself, run on the same files.

The descriptions of the tasks are those of the installed harness, with its data taken from tasks/;
stories.jsonl, the form of own files, is described here. Log-likelihoods must agree within 1e-4, and
acc, acc_stderr, acc_norm and acc_norm_stderr be equal.

needs: lm_eval (seen with 0.4.13), datasets (5.2.0), torch, transformers; nothing is fetched
usage: check_task_golden.py [--model DIRECTORY] [--in torch|grail]   (grail: by grail.lm of the Python package)
"""

import argparse
import importlib.util
import json
import os
import pathlib
import sys

os.environ["HF_DATASETS_OFFLINE"] = os.environ["HF_HUB_OFFLINE"] = "1"

import lm_eval.evaluator  # noqa: E402
import lm_eval.tasks  # noqa: E402
import torch  # noqa: E402
import yaml  # noqa: E402
from lm_eval.api.task import ConfigurableTask  # noqa: E402
from lm_eval.models.huggingface import HFLM  # noqa: E402

DATA = pathlib.Path(__file__).resolve().parent / "tasks"
STORIES = DATA.parents[3] / "shared" / "data" / "stories260k"
DESCRIPTIONS = {
    "arc_easy": "arc/arc_easy.yaml", "arc_challenge": "arc/arc_challenge.yaml",
    "hellaswag": "hellaswag/hellaswag.yaml", "piqa": "piqa/piqa.yaml",
    "boolq": "super_glue/boolq/default.yaml", "winogrande": "winogrande/default.yaml",
    "openbookqa": "openbookqa/openbookqa.yaml",
}
OWN = {
    "output_type": "multiple_choice", "doc_to_text": "{{context}}", "doc_to_choice": "{{choices}}",
    "doc_to_target": "{{answer|int}}",
    "metric_list": [{"metric": metric, "aggregation": "mean", "higher_is_better": True}
                    for metric in ("acc", "acc_norm")],
}
SCORES = ("acc", "acc_stderr", "acc_norm", "acc_norm_stderr")


def function_at(path, text):
    """What "!function module.name" in the description at `path` is."""
    module, name = text.rsplit(".", 1)
    spec = importlib.util.spec_from_file_location(f"{path.stem}_{module}", path.parent / f"{module}.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return getattr(loaded, name)


def description(path):
    class Loader(yaml.SafeLoader):
        pass

    Loader.add_constructor("!function", lambda loader, node: function_at(path, loader.construct_scalar(node)))
    values = yaml.load(path.read_text(), Loader=Loader)
    base = description(path.parent / values.pop("include")) if "include" in values else {}
    return {**base, **values}


def task_of(name):
    root = pathlib.Path(lm_eval.tasks.__file__).parent
    values = dict(OWN) if name == "stories" else description(root / DESCRIPTIONS[name])
    for key in ("tag", "group", "dataset_name", "training_split", "fewshot_split", "validation_split"):
        values.pop(key, None)
    values.update(task=name, dataset_path="json", test_split="test", num_fewshot=0,
                  dataset_kwargs={"data_files": {"test": str(DATA / f"{name}.jsonl")}})
    return ConfigurableTask(config=values)


def model_of(directory, engine):
    if engine == "grail":
        from grail.lm import GrailLM

        return GrailLM(directory)
    return HFLM(pretrained=directory, dtype="float32", device="cpu", batch_size=1)


def largest_difference(samples, expected):
    worst = 0.0
    for sample in samples:
        found = [float(r[0]) for r in sample["filtered_resps"]]
        for value, wanted in zip(found, expected[sample["doc_id"]], strict=True):
            worst = max(worst, abs(value - wanted))
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default=str(STORIES))
    parser.add_argument("--in", dest="engine", choices=("torch", "grail"), default="torch")
    options = parser.parse_args()
    torch.set_num_threads(1)
    expected = json.loads((DATA / "expected.json").read_text())
    model = model_of(options.model, options.engine)
    results = lm_eval.evaluator.evaluate(lm=model, task_dict={n: task_of(n) for n in expected},
                                         bootstrap_iters=100, log_samples=True)
    differs = False
    for name, wanted in expected.items():
        worst = largest_difference(results["samples"][name], wanted["log_likelihoods"])
        found = results["results"][name]
        scores = all(wanted[s] is None or abs(found[f"{s},none"] - wanted[s]) < 1e-9 for s in SCORES)
        print(f"{name}: largest difference {worst:.1e}, scores {'equal' if scores else 'DIFFER'}")
        differs = differs or worst > 1e-4 or not scores
    sys.exit(1 if differs else 0)


if __name__ == "__main__":
    main()
