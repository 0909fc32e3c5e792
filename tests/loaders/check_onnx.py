#!/usr/bin/env python3
"""Reads ONNX models of the Python package onnx, and others, and checks what is written of them.

usage: check_onnx.py ONNX_REWRITE [FILE.onnx ...]

The models are those of onnx's tests of nodes and models, which the package makes, its "light" networks and the files
named, which are also tried with their values in other files. Each that is read must come out byte for byte, and, with every tensor, attribute and node replaced by itself, must pass onnx's
checker where it did before and give the same outputs in ONNX Runtime, where that runs it. What is refused is counted
by reason: operator sets, quantised operators. Exits with 77 without the packages onnx and onnxruntime.
"""

import collections
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings

try:
    import numpy
    import onnx
    import onnxruntime
    from onnx.backend.test.case import model as models
    from onnx.backend.test.case import node as nodes
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

ARGUMENTS = 500  # files in one call


def cases():
    """{name: (model, inputs or None)} of the package."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = nodes.collect_testcases() + models.collect_testcases()
    return {c.name: (c.model, c.data_sets[0][0] if c.data_sets else None) for c in found if c.model is not None}


def rewritten(program, kind, folder, files):
    """Lines of the program."""
    lines = []
    for i in range(0, len(files), ARGUMENTS):
        done = subprocess.run([program, kind, str(folder), *map(str, files[i:i + ARGUMENTS])], stdout=subprocess.PIPE,
                              text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{program} failed: {done.returncode}\n" + "\n".join(
                line for line in done.stdout.splitlines() if not line.startswith("read")))
        lines += done.stdout.splitlines()
    return lines


def passes_checker(path):
    try:
        onnx.checker.check_model(str(path))
    except onnx.checker.ValidationError:
        return False
    return True


def outputs(path, inputs):
    """Outputs of ONNX Runtime without its rewriting; None where it does not run the model."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        names = [x.name for x in session.get_inputs()]
        return session.run(None, dict(zip(names, inputs)))
    except Exception:  # its own kinds of errors, one for each reason
        return None


def is_random(model):
    random = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli", "Dropout"}
    return any(n.op_type in random for n in model.graph.node)


def same(a, b):
    if isinstance(a, (list, dict)) or a is None:
        return repr(a) == repr(b)
    a, b = numpy.asarray(a), numpy.asarray(b)
    texts = a.dtype == object
    return a.dtype == b.dtype and a.shape == b.shape and (a.tolist() == b.tolist() if texts else a.tobytes() == b.tobytes())


def image_input(path):
    """An input for a network of images, whose unknown sizes are 1 and 48."""
    value = onnx.load(str(path), load_external_data=False).graph.input[0]
    sizes = [d.dim_value for d in value.type.tensor_type.shape.dim]
    sizes = [size if size > 0 else 48 if i >= 2 else 1 for i, size in enumerate(sizes)]
    return [numpy.random.default_rng(1).standard_normal(sizes).astype(numpy.float32)]


def with_values_beside(files, folder):
    """Copies of models whose initializers are in one file for each, but for short ones: shapes are not looked for
    there."""
    made = []
    for path in files:
        model = onnx.load(str(path))
        onnx.save_model(model, str(folder / f"{path.stem}_beside.onnx"), save_as_external_data=True,
                        location=f"{path.stem}.values", size_threshold=256)
        made += [folder / f"{path.stem}_beside.onnx"] if (folder / f"{path.stem}.values").exists() else []
    return made


def main():
    program, named = sys.argv[1], [pathlib.Path(p) for p in sys.argv[2:]]
    failed = ran = checked = 0
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        for kind in ("given", "same", "replaced"):
            (work / kind).mkdir()
        known = cases()
        for name, (model, _) in known.items():
            (work / "given" / f"{name}.onnx").write_bytes(model.SerializeToString())
        whole = named + sorted(pathlib.Path(onnx.__file__).parent.glob("backend/test/data/light/*.onnx"))
        files = sorted((work / "given").iterdir()) + whole
        files += with_values_beside(whole, work / "given")
        reasons = collections.Counter(re.sub(r"^.*?\.onnx: (node \d+ |)", "", line)[:70]
                                      for line in rewritten(program, "same", work / "same", files)
                                      if line.startswith("refused"))
        read = [f for f in files if (work / "same" / f.name).exists()]
        rewritten(program, "replaced", work / "replaced", read)
        for path in read:
            replaced = work / "replaced" / path.name
            values = path.with_name(path.stem.removesuffix("_beside") + ".values").name
            for name in [path.name] + ([values] if path.stem.endswith("_beside") else []):
                if (work / "same" / name).read_bytes() != path.with_name(name).read_bytes():
                    print(f"{name}: is not the same")
                    failed += 1
            if passes_checker(path):
                checked += 1
                if not passes_checker(replaced):
                    print(f"{path.name}: onnx's checker refuses it with parts replaced by themselves")
                    failed += 1
            model, inputs = known.get(path.stem, (None, None))
            inputs = image_input(path) if model is None else inputs
            expected = None if inputs is None or (model is not None and is_random(model)) else outputs(path, inputs)
            if expected is not None:
                ran += 1
                got = outputs(replaced, inputs)
                if got is None or len(got) != len(expected) or not all(map(same, got, expected)):
                    print(f"{path.name}: other outputs with parts replaced by themselves")
                    failed += 1
    for reason, count in sorted(reasons.items(), key=lambda r: -r[1]):
        print(f"{count:5} refused: {reason}")
    print(f"{len(read)} of {len(files)} models are read, {checked} pass onnx's checker, {ran} run in ONNX Runtime; "
          f"{failed} faults")
    return 1 if failed or not read else 0


if __name__ == "__main__":
    sys.exit(main())
