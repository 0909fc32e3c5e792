"""What the tests share: networks of the repository, and the program that the wheel holds."""

from __future__ import annotations

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
