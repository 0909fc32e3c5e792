"""Networks of ONNX with several outputs."""

from __future__ import annotations

from pathlib import Path

import grail
import numpy as np
import pytest

NETWORK = Path(__file__).parents[1] / "golden/vision/onnx/outputs.onnx"
NAMES = ["far", "middle", "scores", "near", "embedding"]


def test_each_output_is_compared_by_itself() -> None:
    c = grail.verify(NETWORK, NETWORK)
    assert [o.name for o in c.outputs] == NAMES
    assert all(o.relative_error == 0.0 and not o.is_zero for o in c.outputs)
    assert [o.name for o in c.outputs if o.mean_kl is not None] == ["scores"]
    assert c.worst == "far" and c.mean_kl is None


def test_a_runner_gives_one_row() -> None:
    assert grail.inspect(NETWORK).facts.outputs == len(NAMES)
    with pytest.raises(grail.Error, match="several outputs"):
        grail.Runner(NETWORK).images(np.zeros((1, 3, 32, 32), np.float32))
