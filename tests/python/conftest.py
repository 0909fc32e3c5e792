"""What the tests share: networks of the repository, and the program that the wheel holds."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Callable

import grail
import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "demo" / "model"
TEXT = ROOT / "demo" / "calibration.txt"
HELD = ROOT / "demo" / "held-out.txt"
CNN = ROOT / "demo" / "vision" / "cnn.pth"
IMAGES = ROOT / "demo" / "vision" / "calibration"
TEST_IMAGES = ROOT / "demo" / "vision" / "test"
TINY = ROOT / "tests" / "golden" / "models" / "llama3"  # a vocabulary of 96


@pytest.fixture
def ids(tmp_path: Path) -> Path:
    """Token ids for TINY."""
    path = tmp_path / "ids.npy"
    np.save(path, np.random.default_rng(0).integers(0, 96, (16, 32)).astype(np.int32))
    return path


@pytest.fixture
def program() -> Callable[..., str]:
    """Runs the program, and gives what it prints."""
    path = Path(grail.__file__).parent / "bin" / "grail"

    def run(*arguments: object) -> str:
        words = [str(path), *map(str, arguments)]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout

    return run


def contents(directory: Path) -> dict[str, bytes]:
    """The files of a result but for report.json, which has seconds."""
    return {
        path.name: path.read_bytes() for path in directory.iterdir() if path.name != "report.json"
    }


def read_tensors(directory: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The tensors of a safetensors file, mapped; those of BF16 as bits. And their dtypes."""
    path = directory / "model.safetensors"
    data = np.memmap(path, np.uint8, "r")
    length = int(data[:8].view(np.uint64)[0])
    header = json.loads(bytes(data[8 : 8 + length]))
    kinds = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}
    tensors = {}
    dtypes = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            part = np.array(data[begin:end]).view(kinds[entry["dtype"]])
            tensors[name] = part.reshape(entry["shape"])
            dtypes[name] = entry["dtype"]
    return tensors, dtypes
