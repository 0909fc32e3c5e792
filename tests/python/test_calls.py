"""Progress, interruptions, threads and memory."""

from __future__ import annotations

import gc
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import grail
import numpy as np
import pytest
from conftest import DEMO, HELD, ROOT, TEXT, TINY, contents


def cut(calib: Path, model: Any = TINY, **given: Any) -> grail.Report:
    options = {"sparsity": 0.5, "context": 16, "threads": 1, "progress": False, **given}
    return grail.compress(model, calib=calib, **options)


def test_steps(ids: Path) -> None:
    steps: list[grail.Step] = []
    report = cut(ids, heal="model", heal_steps=2, progress=steps.append)
    sites = [step.site for step in steps if step.site is not None]
    assert [site.name for site in sites] == [site.name for site in report.sites]
    assert [site.kept for site in sites] == [site.kept for site in report.sites]
    blocks = [step.block for step in steps if step.what == "block"]
    assert blocks == list(range(steps[0].blocks))
    assert all(0 <= step.done <= 1 for step in steps)
    trainings = [step.training for step in steps if step.training is not None]
    assert trainings[-1].ended
    assert report.healing == (trainings[-1],)


def test_a_metric_of_errors(tmp_path: Path, ids: Path) -> None:
    steps: list[grail.Step] = []
    cut(ids, metric="fisher", output=tmp_path / "fisher", progress=steps.append)
    measured = [step.done for step in steps if step.block == -2]  # before the first block
    assert measured == sorted(measured) and measured[-1] == 1.0
    assert [step.block for step in steps[: len(measured)]] == [-2] * len(measured)
    cut(ids, output=tmp_path / "plain", metric="plain")
    cut(ids, output=tmp_path / "auto")
    weights = "model.safetensors"  # the rest says which metric it was
    assert contents(tmp_path / "fisher")[weights] != contents(tmp_path / "plain")[weights]
    assert contents(tmp_path / "auto")[weights] != contents(tmp_path / "plain")[weights]
    with pytest.raises(ZeroDivisionError):
        cut(ids, metric="fisher", progress=fail)
    with pytest.raises(grail.ArgumentError, match="selector obs, ziplm or slimgpt"):
        cut(ids, metric="fisher", selector="wanda")


def fail(step: grail.Step) -> None:
    raise ZeroDivisionError(step.what)


def test_a_callback_that_raises(tmp_path: Path, ids: Path) -> None:
    calls = [
        lambda: cut(ids, output=tmp_path / "a", progress=fail),
        lambda: grail.eval(TINY, ids, context=16, progress=fail),
        lambda: grail.plan(TINY, calib=ids, target_ratio=0.8, context=16, progress=fail),
        lambda: grail.gram(TINY, tmp_path / "b", calib=ids, context=16, progress=fail),
    ]
    for call in calls:
        with pytest.raises(ZeroDivisionError) as caught:
            call()
        assert any(entry.name == "fail" for entry in caught.traceback)
    assert not (tmp_path / "a").exists()
    report = cut(ids, output=tmp_path / "a", resume=True)  # what was done is gone on with
    assert report.output == tmp_path / "a"


def test_a_call_within_a_callback(ids: Path) -> None:
    model = grail.inspect(TINY)
    values = []

    def measure_other(step: grail.Step) -> None:
        values.append(grail.eval(TINY, ids, context=16))

    def measure_same(step: grail.Step) -> None:
        grail.eval(model, ids, context=16)

    cut(ids, progress=measure_other)
    assert len(set(values)) == 1
    with pytest.raises(grail.ArgumentError, match="at work already"):
        grail.compress(model, calib=ids, sparsity=0.5, context=16, progress=measure_same)
    assert grail.eval(model, ids, context=16) == values[0]


@pytest.mark.parametrize(
    "call",
    [
        "grail.compress(MODEL, calib=TEXT, sparsity=0.3, heal='model', heal_steps=100000)",
        "while True: grail.eval(MODEL, TEXT)",
        "while True: grail.verify(MODEL, MODEL, TEXT, windows=1000)",
        "grail.plan(MODEL, calib=TEXT, target_ratio=0.7, tries=1000)",
    ],
)
def test_an_interrupt(call: str) -> None:
    """Ctrl-C ends a call soon, as KeyboardInterrupt."""
    code = (
        "import grail, signal\n"  # a shell's job in the background ignores it
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"MODEL, TEXT = {str(DEMO)!r}, {str(TEXT)!r}\nprint('begun', flush=True)\n"
        f"try:\n {call}\nexcept KeyboardInterrupt:\n print('stopped')\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(1.0)
    os.kill(process.pid, signal.SIGINT)
    try:
        assert process.communicate(timeout=60)[0] == "stopped\n"
    finally:
        process.kill()


def test_two_threads(tmp_path: Path, ids: Path) -> None:
    """Two models on two threads, and one model that threads share."""
    shared = grail.inspect(TINY)
    failures: list[BaseException] = []

    def work(name: str, model: Any) -> None:
        try:
            for turn in range(4):
                output = tmp_path / f"{name}-{turn}"
                grail.compress(model, output, calib=ids, sparsity=0.5, context=16, threads=1)
                with pytest.raises(grail.InputOutputError, match=name):
                    grail.inspect(f"no-{name}")
        except BaseException as failure:
            failures.append(failure)

    runs = [("first", TINY), ("second", TINY), ("third", shared), ("fourth", shared)]
    threads = [threading.Thread(target=work, args=one) for one in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    weights = {contents(path)["model.safetensors"] for path in tmp_path.iterdir() if path.is_dir()}
    assert len(weights) == 1


def test_no_leak(ids: Path) -> None:
    def grown() -> int:
        for _ in range(25):
            cut(ids)
            grail.eval(TINY, ids, context=16, threads=1)
            with pytest.raises(grail.ArgumentError):
                cut(ids, selector="none")
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    first = grown()
    assert grown() < first + 20_000  # KiB


def test_objects_end_in_any_order(ids: Path) -> None:
    """In cycles, and without them; sanitizers see what is used after its end."""

    class Cycle:
        def __init__(self, of: Any) -> None:
            self.me, self.of = self, of

    tokens = np.load(ids)
    for hold in (Cycle, list):
        for make in (lambda model: [model, cut(ids, model=model).result], grail.Runner):
            held = hold([make(grail.inspect(TINY))])
            assert held is not None
            del held
            gc.collect()
    result = cut(ids).result
    assert result is not None
    runner = grail.Runner(result.model())
    del result
    gc.collect()
    assert runner.logits(tokens).shape == (16, 32, 96)


def test_nothing_ends_while_a_call_works(ids: Path) -> None:
    """On its own thread, in a callback, and on another one."""
    model = grail.inspect(TINY)
    held = [grail.Runner(model) for _ in range(2)]
    users = model._owner._users
    counts = []

    def drop(step: grail.Step) -> None:
        if held:
            if len(held) == 1:
                held.clear()
            else:
                thread = threading.Thread(target=held.pop)
                thread.start()
                thread.join()
            counts.append(len(users))

    cut(ids, model=model, progress=drop)
    assert counts == [4, 4]  # the model, both runners and the run
    assert len(users) == 1  # only the model is left: the result was dropped, too
    gc.collect()
    assert grail.eval(model, ids, context=16) == grail.eval(TINY, ids, context=16)


def test_regions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = tmp_path / "net.onnx"
    network.write_bytes((ROOT / "fuzz" / "corpus" / "onnx_network" / "sine").read_bytes())
    (region,) = grail.inspect(network).regions
    assert (region.node, region.nodes, region.channels) == ("node of 'b' (Sin)", 1, 6)
    assert region.reason == "grail has no row for this operator"
    assert grail.inspect(DEMO).regions == ()
    package = tmp_path / "onnxruntime"
    package.mkdir()
    (package / "__init__.py").touch()
    monkeypatch.delenv("GRAIL_ONNXRUNTIME", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    grail.inspect(network)
    assert os.environ.pop("GRAIL_ONNXRUNTIME") == str(package)


def test_the_program_on_path() -> None:
    path = Path(sys.executable).parent / "grail"
    if not path.exists():
        pytest.skip("the package is not installed beside this Python")
    printed = subprocess.run([path, "--version"], capture_output=True, text=True, check=True)
    assert printed.stdout == f"grail {grail.version}\n"
    failed = subprocess.run([path, "eval", DEMO, "--data", HELD, "--window", "1"], check=False)
    assert failed.returncode == 2
