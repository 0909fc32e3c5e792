"""Networks of several inputs."""

from __future__ import annotations

from pathlib import Path

import grail
import numpy as np
import pytest

FOLDER = Path(__file__).parents[1] / "golden/inputs"


def arrays() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    mask = np.arange(10) < random.integers(2, 11, (40, 1))
    ids = np.where(mask, random.integers(2, 41, mask.shape), 1)
    return {
        "input_ids": ids,
        "attention_mask": mask,
        "token_type_ids": random.integers(0, 2, mask.shape),
    }


def test_arrays_by_name_are_samples(tmp_path: Path) -> None:
    given = arrays()
    for name, array in given.items():
        np.save(tmp_path / f"{name}.npy", array.astype(np.int32))
    files = ",".join(f"{name}={tmp_path}/{name}.npy" for name in given)
    results = []
    for name, calib in (("a", given), ("b", grail.Samples.inputs(given)), ("c", files)):
        grail.compress(
            FOLDER / "bert.onnx", calib=calib, output=tmp_path / name, sparsity=0.3, threads=1
        )
        results.append((tmp_path / name / "bert.onnx").read_bytes())
    assert results[0] == results[1] == results[2]
    found = grail.verify(FOLDER / "bert.onnx", tmp_path / "a", given)
    assert 0.0 < found.relative_error < 1.0
    del given["token_type_ids"]
    with pytest.raises(grail.ArgumentError, match="'token_type_ids' is not given"):
        grail.verify(FOLDER / "bert.onnx", tmp_path / "a", given)


def test_a_module_of_two_images_is_narrowed() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    from torch import nn

    class Siamese(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 8, 3))
            self.right = nn.Sequential(nn.Conv2d(3, 12, 3), nn.ReLU(), nn.Conv2d(12, 8, 3))
            self.head = nn.Linear(16, 4)

        def forward(self, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
            both = [self.left(one).mean((2, 3)), self.right(other).mean((2, 3))]
            return self.head(torch.cat(both, 1))

    module = Siamese()
    samples = (torch.randn(32, 3, 12, 12), torch.randn(32, 3, 9, 15))
    narrow = grail.torch.compress(module, samples, sparsity=0.5, threads=1)
    assert narrow.module is not None and narrow.module.left[0].weight.shape[0] < 16
    assert narrow.module(*samples).shape == (32, 4)


def test_integers_beside_images_are_samples(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    given = {
        "image": random.normal(size=(32, 3, 8, 8)).astype(np.float32),
        "words": random.integers(0, 41, (32, 5)),
        "kind": random.integers(0, 5, 32).astype(np.uint8),
        "signal": random.normal(size=(32, 4, 11)).astype(np.float32),
        "frames": random.normal(size=(32, 6, 7)).astype(np.float32),
        "box": random.integers(-20, 300, (32, 2)),
    }
    model = grail.Model(FOLDER / "records.onnx")
    grail.compress(model, calib=given, output=tmp_path / "a", sparsity=0.3, threads=1)
    found = grail.verify(FOLDER / "records.onnx", tmp_path / "a", given)
    assert found.mean_kl is not None and 0.0 < found.mean_kl < 0.1
    given["words"][5, 1] = 41
    with pytest.raises(grail.NumericError, match="sample 5 has 41 at position 1 of 'words'"):
        grail.verify(FOLDER / "records.onnx", tmp_path / "a", given)


def test_a_module_of_ids_and_images_is_narrowed() -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    torch.manual_seed(0)
    tower = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
    tower.update(num_attention_heads=2, projection_dim=8)
    text = {**tower, "vocab_size": 40, "max_position_embeddings": 12, "eos_token_id": 39}
    vision = {**tower, "image_size": 16, "patch_size": 8}
    config = transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=8)
    module = transformers.CLIPModel(config).eval()
    ids = torch.randint(2, 39, (32, 9))
    mask = torch.arange(9) < torch.randint(3, 10, (32, 1))
    ids[torch.arange(32), mask.sum(1) - 1] = 39
    samples = {"input_ids": ids, "attention_mask": mask.long()}
    samples["pixel_values"] = torch.randn(32, 3, 16, 16)
    narrow = grail.torch.compress(module, samples, sparsity=0.5, align=1, threads=1)
    assert narrow.difference is not None and narrow.difference < 1e-4
    assert narrow.module.text_model.encoder.layers[0].mlp.fc1.weight.shape == (16, 16)
    assert narrow.module.vision_model.encoder.layers[0].mlp.fc1.weight.shape == (16, 16)
    assert narrow.module(**samples).logits_per_image.shape == (32, 32)
