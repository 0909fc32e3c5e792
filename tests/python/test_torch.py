"""Live modules of torch: known families, modules that grail does not know, samples of others."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import grail
import numpy as np
import pytest
from conftest import ROOT

torch = pytest.importorskip("torch")
nn = torch.nn

IDS = torch.from_numpy(np.random.default_rng(0).integers(0, 96, (16, 32)))


class Block(nn.Module):  # type: ignore[name-defined,misc]
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)

    def forward(self, x: Any) -> Any:
        return torch.relu(self.conv2(torch.relu(self.bn1(self.conv1(x)))))


class UNet(nn.Module):  # type: ignore[name-defined,misc]
    def __init__(self) -> None:
        super().__init__()
        self.down, self.inner, self.up = Block(3, 16), Block(16, 32), Block(48, 16)
        self.out = nn.Conv2d(16, 1, 1)

    def forward(self, x: Any) -> Any:
        down = self.down(x)
        inner = self.inner(nn.functional.max_pool2d(down, 2))
        inner = nn.functional.interpolate(inner, scale_factor=2.0)
        return self.out(self.up(torch.cat([down, inner], 1)))


UNET_SITES = [
    (("down.conv1", "down.bn1"), "down.conv2"),
    (("inner.conv1", "inner.bn1"), "inner.conv2"),
    (("up.conv1", "up.bn1"), "up.conv2"),
]


class Mobile(nn.Module):  # type: ignore[name-defined,misc]
    """Inverted residuals with depthwise convolutions, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, stride=2, padding=1)
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    "expand": nn.Conv2d(16, 64, 1, bias=False),
                    "norm": nn.BatchNorm2d(64),
                    "depth": nn.Conv2d(64, 64, 3, padding=1, groups=64, bias=False),
                    "norm2": nn.BatchNorm2d(64),
                    "project": nn.Conv2d(64, 16, 1),
                }
            )
            for _ in range(3)
        )
        self.head = nn.Linear(16, 10)

    def forward(self, x: Any) -> Any:
        x = self.stem(x)
        for block in self.blocks:
            y = torch.relu(block["norm"](block["expand"](x)))
            y = torch.relu(block["norm2"](block["depth"](y)))
            x = x + block["project"](y)
        return self.head(x.mean((2, 3)))


MOBILE_SITES = [
    (
        tuple(f"blocks.{i}.{name}" for name in ("expand", "norm", "depth", "norm2")),
        f"blocks.{i}.project",
    )
    for i in range(3)
]


def seen(network: Any) -> Any:
    """With batch norms that have seen images."""
    with torch.no_grad():
        for _ in range(4):
            network.train()(torch.randn(8, 3, 32, 32))
    return network.eval()


def test_modules_that_grail_does_not_know() -> None:
    torch.manual_seed(0)
    samples = [torch.randn(8, 3, 32, 32) for _ in range(4)]
    images = torch.randn(16, 3, 32, 32)
    for make, sites in ((UNet, UNET_SITES), (Mobile, MOBILE_SITES)):
        network = seen(make())
        dense = network(images).detach()
        errors = {}
        for compensate in ("none", "grail", "full"):
            narrow = copy.deepcopy(network)
            done = grail.torch.narrow(narrow, sites, samples, sparsity=0.5, compensate=compensate)
            assert [site.kept * 2 for site in done] == [site.units for site in done]
            made = narrow(images).detach()
            errors[compensate] = float((made - dense).square().mean() / dense.square().mean())
            assert sum(p.numel() for p in narrow.parameters()) < 0.75 * sum(
                p.numel() for p in network.parameters()
            )
        assert errors["full"] < 0.6 * errors["none"], (make.__name__, errors)
        assert errors["grail"] < errors["none"], (make.__name__, errors)
        whole = copy.deepcopy(network)
        grail.torch.narrow(whole, sites, samples, sparsity=0.0)
        assert torch.allclose(whole(images), dense, atol=1e-4)
        folded = copy.deepcopy(network)
        grail.torch.narrow(folded, sites, samples, sparsity=0.5, selector="fold")
        assert float((folded(images) - dense).square().mean() / dense.square().mean()) < 1.0


def same(one: Any, other: Any) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


def test_a_failure_leaves_the_module_as_it_was() -> None:
    torch.manual_seed(0)
    network = seen(UNet())
    before = {key: tensor.clone() for key, tensor in network.state_dict().items()}
    samples = [torch.randn(4, 3, 32, 32) for _ in range(2)]

    def stop(step: grail.Step) -> None:
        if step.what == "site":
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        grail.torch.narrow(network, UNET_SITES, samples, progress=stop)
    assert same(network.state_dict(), before)
    assert not network.training
    spoiled = [samples[0], samples[1] * float("nan")]
    with pytest.raises(grail.NumericError, match="batch 1 of the samples"):
        grail.torch.narrow(network, UNET_SITES, spoiled)
    assert same(network.state_dict(), before)
    for sites, error, text in (
        ([("nowhere", "down.conv2")], grail.ArgumentError, "no submodule 'nowhere'"),
        ([("down.conv1", "down.conv2")], grail.ShapeError, "name all layers"),
        ([(("down.conv1", "down.bn1"), "inner.conv2")], grail.GrailError, ""),
        ([("down.conv2", "up.conv1")], grail.GrailError, ""),
        ([("down.bn1", "down.conv2")], grail.ShapeError, "producers"),
        ([(("down.conv1", "down.bn1"), "down.bn1")], grail.GrailError, ""),
    ):
        with pytest.raises(error, match=text):
            grail.torch.narrow(network, sites, samples)
        assert same(network.state_dict(), before)
    with pytest.raises(grail.ArgumentError, match="does not take the first batch"):
        grail.torch.narrow(network, UNET_SITES, [torch.randn(4, 5)])
    with pytest.raises(grail.ArgumentError, match="sparsity"):
        grail.torch.narrow(network, UNET_SITES, samples, sparsity=1.0)
    with pytest.raises(TypeError, match=r"torch\.nn\.Module"):
        grail.torch.narrow("network", UNET_SITES, samples)  # type: ignore[arg-type]
    shared = nn.Sequential(layer := nn.Linear(8, 8), nn.ReLU(), layer, nn.Linear(8, 8))
    with pytest.raises(grail.UnsupportedError, match="shared"):
        grail.torch.narrow(shared, [("0", "3")], [torch.randn(4, 8)])


def llama() -> Any:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=96,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        tie_word_embeddings=True,
        head_dim=16,
    )
    return transformers.LlamaForCausalLM(config).eval()


def test_a_live_decoder_is_narrowed_as_its_directory_is(tmp_path: Path) -> None:
    network = llama()
    before = {key: tensor.clone() for key, tensor in network.state_dict().items()}
    options: dict[str, Any] = {"sparsity": {"ffn": 0.5}}
    narrow = grail.torch.compress(network, IDS, **options)
    assert same(network.state_dict(), before)
    network.save_pretrained(tmp_path / "dense")
    report = grail.compress(tmp_path / "dense", calib=grail.Samples.tokens(IDS), **options)
    assert report.result is not None
    assert report.result.keys() == narrow.result.keys()
    assert all(np.array_equal(narrow.result[key], report.result[key]) for key in report.result)
    assert narrow.module.config.intermediate_size == 64
    with torch.no_grad():
        logits = narrow.module(IDS[:2]).logits.numpy()
    assert np.allclose(grail.Runner(report.result.model()).logits(IDS[:2]), logits, atol=1e-4)
    half = copy.deepcopy(network).bfloat16()
    assert grail.torch.compress(half, IDS, **options).module.dtype == torch.bfloat16


def test_live_image_networks(tmp_path: Path) -> None:
    pixels = torch.randn(48, 3, 32, 32)
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=3,
        image_size=32,
        patch_size=8,
        num_labels=5,
    )
    vit = transformers.ViTForImageClassification(config).eval()
    narrow = grail.torch.compress(vit, pixels, sparsity={"ffn": 0.5}, align=1)
    assert narrow.module is not None, narrow.reason
    with torch.no_grad():
        logits = narrow.module(pixels[:4]).logits.numpy()
    assert np.allclose(grail.Runner(narrow.result.model()).images(pixels[:4]), logits, atol=1e-4)
    torchvision = pytest.importorskip("torchvision")
    resnet = seen(torchvision.models.resnet18(num_classes=5))
    narrow = grail.torch.compress(resnet, pixels, sparsity={"conv": 0.5})
    assert narrow.module is not None, narrow.reason
    assert narrow.module.layer1[0].conv1.out_channels == 32
    with torch.no_grad():
        made = narrow.module(pixels[:4]).numpy()
    expected = grail.Runner(narrow.result.model()).images(pixels[:4])
    assert np.allclose(expected, made, atol=1e-3 * np.abs(made).max())


SMALL: dict[str, Any] = {"vocab_size": 96, "max_position_embeddings": 64}


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        (
            "BertForMaskedLM",
            {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4},
        ),
        ("GPT2LMHeadModel", {"n_embd": 64, "n_inner": 128, "n_head": 4, "n_positions": 64}),
        (
            "GPTNeoXForCausalLM",
            {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4},
        ),
    ],
)
def test_layers_that_no_config_gives_go_into_a_copy(kind: str, config: dict[str, Any]) -> None:
    """Their classes compute the heads from the width."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    maker = getattr(transformers, kind)
    small = {**SMALL, "num_hidden_layers": 2, "n_layer": 2, **config}
    network = maker(maker.config_class(**small)).eval()
    before = {key: tensor.clone() for key, tensor in network.state_dict().items()}
    with pytest.warns(grail.GrailWarning, match="so the module is a copy with narrow layers"):
        narrow = grail.torch.compress(network, IDS, sparsity={"heads": 0.5, "ffn": 0.5}, align=1)
    assert narrow.difference is not None and narrow.difference < 1e-5 and narrow.reason == ""
    count = sum(one.numel() for one in narrow.module.parameters())
    assert count < 0.8 * sum(one.numel() for one in network.parameters())
    assert same(network.state_dict(), before)
    with torch.no_grad():
        made = narrow.module(IDS[:2], output_hidden_states=True)
        logits = narrow.module(IDS[:2]).logits
    last = made.hidden_states[-1] if kind == "BertForMaskedLM" else logits
    expected = grail.Runner(narrow.result.model()).logits(IDS[:2])
    assert np.allclose(expected, last.numpy(), atol=1e-4)
    tied = (
        narrow.module.get_output_embeddings().weight is narrow.module.get_input_embeddings().weight
    )
    assert tied == (network.get_output_embeddings().weight is network.get_input_embeddings().weight)


def test_a_copy_whose_code_takes_no_other_width_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    timm = pytest.importorskip("timm")
    torch.manual_seed(0)
    vit = timm.models.VisionTransformer(
        img_size=32, patch_size=8, embed_dim=64, depth=2, num_heads=4, num_classes=5
    ).eval()
    pixels, cut = torch.randn(24, 3, 32, 32), {"sparsity": {"heads": 0.5}, "align": 1}
    with pytest.warns(grail.GrailWarning, match="keeps the number of heads; so the module is"):
        narrow = grail.torch.compress(vit, pixels, **cut)
    assert narrow.module.blocks[0].attn.num_heads == 2 and vit.blocks[0].attn.num_heads == 4
    assert narrow.difference is not None and narrow.difference < 1e-5
    monkeypatch.setattr("grail.exported.set_counts", lambda *_: None)
    with pytest.warns(grail.GrailWarning, match="no live module"):
        narrow = grail.torch.compress(vit, pixels, **cut)
    assert narrow.module is None and "keeps the number of heads" in narrow.reason


def test_samples_of_other_libraries() -> None:
    batches = [
        {"input_ids": IDS[:2], "attention_mask": torch.ones_like(IDS[:2])},
        {"input_ids": IDS[2:4]},
    ]
    assert repr(grail.Samples.loader(batches)) == "grail.Samples.text('memory')"
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(6, 3, 8, 8)), 4)
    assert grail.Samples.loader(loader).kind == "images"

    class Tokenizer:
        def __call__(self, text: str) -> dict[str, list[int]]:
            return {"input_ids": [ord(letter) for letter in text]}

        def apply_chat_template(self, talk: Any, **_: Any) -> list[int]:
            return [1, *(ord(letter) for turn in talk for letter in turn["content"]), 2]

    talks = [[{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "World"}]] * 3
    assert grail.Samples.conversations(Tokenizer(), talks, context=8).kind == "text"
    rows = [{"text": "some words"}, {"text": "and others"}]
    assert grail.Samples.dataset(rows, Tokenizer(), context=5).kind == "text"
    with pytest.raises(grail.ArgumentError, match="give a tokenizer"):
        grail.Samples.dataset(rows)
    with pytest.raises(grail.ArgumentError, match="no field 'body'"):
        grail.Samples.dataset(rows, Tokenizer(), field="body")
    with pytest.raises(grail.ArgumentError, match="less than a window of 512"):
        grail.Samples.conversations(Tokenizer(), talks)
    with pytest.raises(grail.ShapeError, match="not both"):
        grail.Samples.loader([IDS, torch.randn(1, 3, 8, 8)])


def test_old_torch_files(tmp_path: Path) -> None:
    torchvision = pytest.importorskip("torchvision")
    network = torchvision.models.resnet18(num_classes=5)
    path = tmp_path / "old.pth"
    torch.save({"model": network.state_dict()}, path, _use_new_zipfile_serialization=False)
    with pytest.raises(grail.GrailError, match="torch"):
        grail.Model(path)
    model = grail.Model.from_torch_file(path)
    assert model.facts.classes == 5
    (tmp_path / "bad.pth").write_bytes(b"no torch file")
    with pytest.raises(grail.FormatError, match="cannot read it"):
        grail.Model.from_torch_file(tmp_path / "bad.pth")


@pytest.mark.parametrize("order", ["torch, grail", "grail, torch"])
def test_imports_in_both_orders(order: str) -> None:
    code = f"""
import {order.split(", ")[0]}
import {order.split(", ")[1]}
import numpy as np
a = torch.randn(300, 300)
for _ in range(20):
    a = torch.tanh(a @ a)
s = grail.Statistics(64).add(np.random.default_rng(0).normal(size=(1000, 64)).astype(np.float32))
assert s.count == 1000 and abs(float((a @ a).sum())) >= 0
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_another_torch_than_the_imported_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "libtorch_cpu.so").write_text("another one")
    code = f"""
import os, torch
os.environ["GRAIL_TORCH"] = {str(tmp_path)!r}
import grail
try:
    grail.Runner({str(ROOT / "tests/golden/models/llama3")!r}, backend="torch:cpu")
except grail.UnsupportedError as error:
    assert "has PyTorch loaded already, from" in error.message, error.message
else:
    raise AssertionError("two torches at once")
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_torch_is_not_needed() -> None:
    code = "import sys; sys.modules['torch'] = None; import grail; grail.Statistics(4)"
    subprocess.run([sys.executable, "-c", code], check=True)
