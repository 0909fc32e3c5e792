#!/usr/bin/env python3
"""Narrows a sentence encoder that transformers exports to ONNX (opset 14, traced, any number of samples and positions;
inputs input_ids, attention_mask, token_type_ids), calibrated on the lines of a text, and compares its sentence
embeddings, means of the hidden states that the mask leaves, with those of the dense file: both in ONNX Runtime, on
lines of another text in padded batches. Beside it how far ONNX Runtime and grail are apart on the narrow file.

needs: numpy, onnxruntime, tokenizers, and for the export torch, transformers and onnx
usage: onnx_encoder.py GRAIL MODEL_DIRECTORY CALIBRATION.txt TEST.txt FOLDER [--lines 256] [--samples 256]
       [--ratios 0.2,0.4] [--sites heads,ffn] [--cuts SELECTOR:REPAIR,...] [--threads 1]
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import tempfile

import numpy as np
import onnxruntime
import tokenizers

CUTS = "magnitude-l1:none,wanda:none,wanda:grail,obs:none,obs:grail,obs:full"
MOST_TOKENS, BATCH = 128, 32


def export(directory, folder):
    """model.onnx in the folder, beside the files that say how texts are read and vectors pooled."""
    import torch
    import transformers

    path = folder / "model.onnx"
    if path.exists():
        return path
    names = ["input_ids", "attention_mask", "token_type_ids"]
    model = transformers.AutoModel.from_pretrained(directory).eval()

    class Network(torch.nn.Module):  # which takes its inputs by their order
        def __init__(self):
            super().__init__()
            self.encoder = model

        def forward(self, *values):
            return tuple(self.encoder(**dict(zip(names, values))).values())

    torch.onnx.export(Network().eval(), tuple(torch.ones(2, 9, dtype=torch.long) for _ in names), str(path), dynamo=False,
                      opset_version=14, input_names=names, output_names=["last_hidden_state", "pooler_output"],
                      dynamic_axes={name: {0: "batch", 1: "positions"} for name in [*names, "last_hidden_state"]})
    for name in ("tokenizer.json", "sentence_bert_config.json", "1_Pooling", "modules.json"):
        source = pathlib.Path(directory) / name
        if source.is_dir():
            shutil.copytree(source, folder / name, dirs_exist_ok=True)
        elif source.exists():
            shutil.copy(source, folder / name)
    return path


def read_lines(path, count):
    """Lines of eight words or more, evenly spread."""
    lines = [line.strip() for line in open(path, encoding="utf-8") if len(line.split()) >= 8]
    if len(lines) < count:
        raise SystemExit(f"{path} has {len(lines)} lines of eight words, and {count} are asked for")
    return [lines[i * len(lines) // count] for i in range(count)]


def encode(tokenizer, lines):
    """ids and mask [lines, positions]; padding lies behind."""
    found = [one.ids[:MOST_TOKENS - 1] + one.ids[-1:] if len(one.ids) > MOST_TOKENS else one.ids
             for one in tokenizer.encode_batch(lines)]
    ids = np.zeros((len(found), max(map(len, found))), np.int64)
    mask = np.zeros_like(ids)
    for i, one in enumerate(found):
        ids[i, :len(one)], mask[i, :len(one)] = one, 1
    return ids, mask


def states(path, ids, mask, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    parts = []
    for i in range(0, len(ids), BATCH):
        part = slice(i, i + BATCH)
        feed = {"input_ids": ids[part], "attention_mask": mask[part], "token_type_ids": np.zeros_like(ids[part])}
        parts.append(session.run(["last_hidden_state"], feed)[0])
    return np.concatenate(parts)


def pool(hidden, mask):
    weights = mask[:, :, None].astype(np.float32)
    return (hidden * weights).sum(1) / weights.sum(1)


def nearest(vectors):
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    likeness = unit @ unit.T
    np.fill_diagonal(likeness, -2)
    return likeness.argmax(1)


def disagreement(grail, path, ids, mask, threads):
    """The largest difference of ONNX Runtime's hidden states and grail's of lines of one length."""
    lengths = mask.sum(1)
    length = np.bincount(lengths).argmax()
    chosen = lengths == length
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/ids.npy", ids[chosen, :length].astype(np.int32))
        subprocess.run([grail, "logits", path, "--ids", f"{folder}/ids.npy", "-o", f"{folder}/out.safetensors"],
                       check=True)
        data = open(f"{folder}/out.safetensors", "rb").read()
    begin = 8 + int.from_bytes(data[:8], "little")
    ours = np.frombuffer(data[begin:], np.float32)
    theirs = states(path, ids[chosen], mask[chosen], threads)[:, :length]
    return float(np.abs(ours - theirs.ravel()).max() / np.abs(theirs).max())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("grail", "model", "calibration", "test", "folder"):
        parser.add_argument(name)
    parser.add_argument("--lines", type=int, default=256)
    parser.add_argument("--samples", default="256")
    parser.add_argument("--ratios", default="0.2,0.4")
    parser.add_argument("--sites", default="heads,ffn")
    parser.add_argument("--cuts", default=CUTS)
    parser.add_argument("--threads", type=int, default=1)
    a = parser.parse_args()
    folder = pathlib.Path(a.folder)
    folder.mkdir(parents=True, exist_ok=True)
    dense = export(a.model, folder)
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    ids, mask = encode(tokenizer, read_lines(a.test, a.lines))
    expected = pool(states(dense, ids, mask, a.threads), mask)
    neighbours = nearest(expected)
    print("| cut | selector, repair | parameters | relative error | cosine | same nearest | ONNX Runtime and grail |")
    print("|---|---|---|---|---|---|---|")
    print(f"| dense |  |  |  |  |  | {disagreement(a.grail, dense, ids, mask, a.threads):.0e} |", flush=True)
    for ratio in a.ratios.split(","):
        for cut in a.cuts.split(","):
            selector, repair = cut.split(":")
            out = folder / f"{selector}-{repair}-{ratio}"
            if not out.exists():
                subprocess.run([a.grail, "compress", dense, "-o", out, "--calib", a.calibration, "--samples",
                                a.samples, "--sparsity", ratio, "--sites", a.sites, "--selector", selector,
                                "--compensate", repair, "--threads", str(a.threads), "--quiet"], check=True,
                               stdout=subprocess.DEVNULL)
            report = json.loads((out / "report.json").read_text())
            found = pool(states(out / "model.onnx", ids, mask, a.threads), mask)
            error = np.linalg.norm(found - expected) / np.linalg.norm(expected)
            cosine = (found * expected).sum(1) / np.linalg.norm(found, axis=1) / np.linalg.norm(expected, axis=1)
            kept = report["narrow"]["parameters"] / 1e6
            print(f"| {float(ratio):.0%} | {selector}, {repair} | {kept:.1f} M | {error:.3f} | {cosine.mean():.3f} | "
                  f"{(nearest(found) == neighbours).mean():.1%} | "
                  f"{disagreement(a.grail, out / 'model.onnx', ids, mask, a.threads):.0e} |", flush=True)


if __name__ == "__main__":
    main()
