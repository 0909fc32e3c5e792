"""Live modules of no family that grail knows, which go through a file of ONNX."""

from __future__ import annotations

import importlib.util
import math
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grail
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="these are modules of torch")
nn = torch.nn

from grail import exported, surgery  # noqa: E402

PIXELS = torch.randn(24, 3, 16, 16, generator=torch.Generator().manual_seed(1))
# What grail has no rows for is refused without ONNX Runtime.
RUNS_REGIONS = importlib.util.find_spec("onnxruntime") is not None
CUT: dict[str, Any] = {"sparsity": 0.25, "progress": False}


class Gate(nn.Module):  # type: ignore[name-defined,misc]
    """Squeeze and excitation."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(channels, channels // 4, 1)
        self.excite = nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x: Any) -> Any:
        mean = torch.relu(self.squeeze(x.mean((2, 3), keepdim=True)))
        return x * torch.sigmoid(self.excite(mean))


class Net(nn.Module):  # type: ignore[name-defined,misc]
    def __init__(self, gate: Any = None) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, 2, 1, bias=False)
        self.norm = nn.BatchNorm2d(16)
        self.expand = nn.Conv2d(16, 64, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(64)
        self.depth = nn.Conv2d(64, 64, 3, padding=1, groups=64, bias=False)
        self.norm2 = nn.BatchNorm2d(64)
        self.gate = gate or nn.Identity()
        self.project = nn.Conv2d(64, 16, 1)
        self.head = nn.Linear(16, 10)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d) and layer.bias is not None:
                nn.init.zeros_(layer.bias)  # which an exporter takes for none

    def features(self, x: Any) -> Any:
        x = torch.relu(self.norm(self.stem(x)))
        y = nn.functional.hardswish(self.norm1(self.expand(x)))
        y = self.gate(nn.functional.hardswish(self.norm2(self.depth(y))))
        return x + self.project(y)

    def forward(self, x: Any) -> Any:
        return self.head(self.features(x).mean((2, 3)))


class Plain(nn.Module):  # type: ignore[name-defined,misc]
    """Two convolutions, and a class whose forward() may be wrong for other widths."""

    def __init__(self) -> None:
        super().__init__()
        self.width = 64
        self.first = nn.Conv2d(3, 64, 3, padding=1)
        self.second = nn.Conv2d(64, 64, 3, padding=1)
        self.head = nn.Linear(64, 10)

    def forward(self, x: Any) -> Any:
        return self.head(self.inner(torch.relu(self.first(x))).mean((2, 3)))

    def inner(self, x: Any) -> Any:
        return torch.relu(self.second(x))


class InReshape(Plain):
    def forward(self, x: Any) -> Any:
        mean = self.inner(torch.relu(self.first(x))).mean((2, 3), keepdim=True)
        return self.head(mean.reshape(-1, self.width))


class InValues(Plain):
    def inner(self, x: Any) -> Any:
        return torch.relu(self.second(x * (self.first.out_channels / self.width)))


class OfData(Plain):
    def inner(self, x: Any) -> Any:
        return torch.relu(self.second(x)) if x.sum() > 0 else x


class Twice(Plain):
    def inner(self, x: Any) -> Any:
        return torch.relu(self.second(torch.relu(self.second(x))))


class Tied(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.third = nn.Conv2d(64, 64, 3, padding=1)
        self.third.weight = self.second.weight

    def inner(self, x: Any) -> Any:
        return torch.relu(self.third(super().inner(x)))


class Unused(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.aid = nn.Linear(64, 10)


class WithoutScale(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(64, affine=False)

    def inner(self, x: Any) -> Any:
        return torch.relu(self.second(torch.relu(self.norm(x))))


class Maps(Plain):
    """Two maps, both enlarged by the same constant."""

    def forward(self, x: Any) -> Any:
        grow = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        x = torch.relu(self.first(nn.functional.max_pool2d(x, 2)))
        y = self.inner(grow(x))
        return {"large": grow(nn.functional.max_pool2d(y, 2)), "classes": self.head(y.mean((2, 3)))}


class Signals(nn.Module):  # type: ignore[name-defined,misc]
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(2, 32, 5, 2)
        self.second = nn.Conv1d(32, 24, 3)
        self.head = nn.Conv1d(24, 4, 1)

    def forward(self, x: Any) -> Any:
        return self.head(torch.relu(self.second(torch.relu(self.first(x)))))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where temporary files go, of which none are left."""
    pytest.importorskip("onnxscript", reason="PyTorch exports modules by onnxscript")
    pytest.importorskip("onnx", reason="PyTorch exports modules by onnx")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    assert not list(tmp_path.glob("grail-*"))


def made(kind: Any, *arguments: Any) -> Any:
    """With batch norms that have seen images."""
    torch.manual_seed(0)
    network = kind(*arguments)
    with torch.no_grad():
        for _ in range(3):
            network.train()(torch.randn(8, 3, 16, 16))
    return network


def outputs(network: Any, pixels: Any = PIXELS) -> Any:
    modes = {layer: layer.training for layer in network.modules()}
    with torch.no_grad():
        found = network.eval()(pixels)
    for layer, mode in modes.items():
        layer.training = mode
    return found


def state(network: Any) -> dict[str, Any]:
    return {name: tensor.clone() for name, tensor in network.state_dict().items()}


def same(one: Any, other: Any) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


def apart(one: Any, other: Any) -> float:
    return float((one - other).abs().max() / other.abs().max())


def test_a_module_of_no_family(folder: Path) -> None:
    network = made(Net, Gate(64))
    network.norm1.eval()
    network.stem.weight.requires_grad_(False)
    network.expand.weight.data = network.expand.weight.data.to(memory_format=torch.channels_last)
    seen: list[Any] = []
    network.depth.register_forward_hook(lambda _layer, _given, made: seen.append(type(made)))
    before = state(network)
    narrow = grail.torch.compress(network, PIXELS, **CUT)
    assert same(network.state_dict(), before)
    assert seen == [torch.Tensor]  # none of the exporter's
    cut = narrow.module
    assert type(cut) is Net
    assert cut.training and not cut.norm1.training
    assert not cut.stem.weight.requires_grad and cut.expand.weight.requires_grad
    widths = (cut.expand.out_channels, cut.norm1.num_features, cut.depth.groups)
    assert widths == (48, 48, 48)
    assert (cut.depth.in_channels, cut.depth.out_channels, cut.project.in_channels) == (48, 48, 48)
    assert (cut.gate.squeeze.in_channels, cut.gate.excite.out_channels) == (48, 48)
    assert narrow.difference is not None and narrow.difference < 1e-5
    assert apart(outputs(cut), outputs(network)) < 0.2
    assert same(narrow.result.torch(), cut.state_dict())
    assert narrow.report.json["grail_report"] and narrow.report.output is None
    assert "plan.json" in narrow.result.documents
    assert not {p.data_ptr() for p in cut.parameters()} & {
        p.data_ptr() for p in network.parameters()
    }
    cut(PIXELS).sum().backward()  # it trains on


def test_a_plain_cut_is_the_dense_module_without_channels(folder: Path) -> None:
    network = made(Net)
    options = {**CUT, "selector": "magnitude-l1", "compensate": "none", "sites": "conv"}
    cut = grail.torch.compress(network, PIXELS.permute(0, 2, 3, 1).numpy(), **options).module
    rows = network.expand.weight.flatten(1)
    kept = [int((rows == row).all(1).nonzero()) for row in cut.expand.weight.flatten(1)]
    assert len(kept) == 48 == len(set(kept))
    removed = [i for i in range(64) if i not in kept]
    with torch.no_grad():
        network.project.weight[:, removed] = 0.0
    assert apart(outputs(cut), outputs(network)) < 1e-5
    whole = grail.torch.compress(network, PIXELS[:1], sparsity=0.0, progress=False).module
    assert same(whole.state_dict(), network.state_dict())


class InGroups(nn.Module):  # type: ignore[name-defined,misc]
    """A bottleneck of ResNeXt, with a gate behind the groups."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, 2, 1)
        self.reduce = nn.Conv2d(16, 32, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(32)
        self.groups = nn.Conv2d(32, 64, 3, padding=1, groups=8, bias=False)
        self.norm2 = nn.BatchNorm2d(64)
        self.gate = Gate(64)
        self.expand = nn.Conv2d(64, 16, 1)
        self.head = nn.Linear(16, 10)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d) and layer.bias is not None:
                nn.init.zeros_(layer.bias)

    def forward(self, x: Any) -> Any:
        x = torch.relu(self.stem(x))
        y = torch.relu(self.norm1(self.reduce(x)))
        y = self.gate(torch.relu(self.norm2(self.groups(y))))
        return self.head((x + self.expand(y)).mean((2, 3)))


@pytest.mark.parametrize("selector", ["obs", "fold"])
def test_whole_groups_go(folder: Path, selector: str) -> None:
    network = made(InGroups)
    options = {**CUT, "sites": "groups", "selector": selector}
    narrow = grail.torch.compress(network, PIXELS, **options)
    cut = narrow.module
    groups = cut.groups
    assert (groups.groups, groups.in_channels, groups.out_channels) == (6, 24, 48)
    assert groups.weight.shape == (48, 4, 3, 3)
    assert (cut.reduce.out_channels, cut.norm2.num_features, cut.expand.in_channels) == (24, 48, 48)
    assert (cut.gate.squeeze.in_channels, cut.gate.excite.out_channels) == (48, 48)
    assert narrow.difference is not None and narrow.difference < 1e-5
    [site] = [site for site in narrow.report.sites if site.kind == "groups"]
    assert (site.name, site.units, site.kept) == ("groups[groups]", 8, 6)
    # The rest of it: some channels of each of the groups that are left.
    again = grail.torch.compress(cut, PIXELS, **{**CUT, "sites": "conv"}).module.groups
    assert (again.groups, again.in_channels, again.out_channels) == (6, 18, 36)


def test_whole_groups_that_go_are_zeros_to_what_reads_them(folder: Path) -> None:
    network = made(InGroups)
    network.gate = nn.Identity()
    options = {**CUT, "sites": "groups", "selector": "magnitude-l2", "compensate": "none"}
    cut = grail.torch.compress(network, PIXELS, **options).module
    stays = [
        any(torch.equal(one, own) for own in cut.groups.weight.split(8))
        for one in network.groups.weight.split(8)
    ]
    assert sum(stays) == 6
    with torch.no_grad():
        for group in range(8):
            network.expand.weight[:, 8 * group : 8 * group + 8] *= float(stays[group])
    assert apart(outputs(cut), outputs(network)) < 1e-5


def test_what_is_not_finite_agrees_with_nothing() -> None:
    values = torch.ones(2, 3)
    broken = torch.tensor([[1.0, 1.0, math.nan], [1.0, 1.0, 1.0]])
    assert exported._apart([values, values], [values, values.reshape(3, 2)]) == 0.0
    for theirs, ours in ((values, broken), (broken, values), (broken, broken)):
        assert exported._apart([values, theirs], [values, ours]) == math.inf


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_types_stay(folder: Path, dtype: Any) -> None:
    network = made(Net).to(dtype)
    cut = grail.torch.compress(network, PIXELS, **CUT).module
    types = {name: tensor.dtype for name, tensor in network.state_dict().items()}
    assert {name: tensor.dtype for name, tensor in cut.state_dict().items()} == types
    assert torch.equal(cut.head.weight, network.head.weight)
    assert apart(outputs(cut.float()), outputs(network.float())) < 0.2


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (InReshape, "does not run with narrow layers"),
        (InValues, "computes with narrow layers what is"),
        (OfData, "torch.onnx.export cannot export it: .*data-dependent"),
        (Twice, "'second.weight' is used more than once"),
        (Tied, "'second.weight' is also 'third.weight'"),
    ],
)
def test_modules_that_are_refused(folder: Path, kind: Any, text: str) -> None:
    torch.manual_seed(0)
    network = kind()
    before = state(network)
    with pytest.raises(grail.UnsupportedError, match=f"^{kind.__name__} is of no .*{text}.*narrow"):
        grail.torch.compress(network, PIXELS, **CUT)
    assert same(network.state_dict(), before)
    assert network.training


class Standardised(nn.Conv2d):  # type: ignore[name-defined,misc]
    """Its kernels have mean 0 and deviation 1, times a gain."""

    def __init__(self, layer: Any) -> None:
        super().__init__(layer.in_channels, layer.out_channels, 3, padding=layer.padding)
        self.gain = nn.Parameter(torch.rand(layer.out_channels, 1, 1, 1))

    def forward(self, x: Any) -> Any:
        variance, mean = torch.var_mean(self.weight, (1, 2, 3), keepdim=True)
        weight = (self.weight - mean) * torch.rsqrt(variance + 1e-5) * self.gain
        return nn.functional.conv2d(x, weight, self.bias, self.stride, self.padding)


class Doubled(Standardised):
    def forward(self, x: Any) -> Any:
        return 2.0 * super().forward(x)


def normed(layer: Any) -> Any:
    """With a norm that is not that of its direction."""
    layer = nn.utils.parametrizations.weight_norm(layer)
    layer.parametrizations.weight.original0.data *= 0.7
    return layer


def test_weights_that_layers_compute_of_others_are_cut(folder: Path) -> None:
    for wrap in (
        normed,
        nn.utils.parametrizations.spectral_norm,
        nn.utils.weight_norm,
        nn.utils.spectral_norm,
        Standardised,
    ):
        torch.manual_seed(0)
        network = Plain()
        network.first, network.second = wrap(network.first), wrap(network.second)
        network.head = network.head if wrap is Standardised else wrap(network.head)
        network(PIXELS).sum().backward()  # from which a computed weight may hold a graph
        before, dense = state(network), outputs(network)
        with pytest.warns(grail.errors.GrailWarning, match="its layers computed .* of 'first'"):
            narrow = grail.torch.compress(network, PIXELS, **CUT)
        cut = narrow.module
        assert type(cut.first) is nn.Conv2d and cut.first.weight.shape == (48, 3, 3, 3)
        assert cut.second.weight.shape == (48, 48, 3, 3)
        assert cut.first.weight.requires_grad and cut.first.training
        assert {"first.weight", "first.bias"} <= cut.state_dict().keys()
        assert narrow.difference is not None and narrow.difference < 1e-5
        assert apart(outputs(cut), dense) < 0.5
        assert same(state(network), before) and torch.equal(outputs(network), dense)
        whole = grail.torch.compress(network, PIXELS, **{**CUT, "sparsity": 0.0}).module
        assert same(whole.state_dict(), before)


def test_what_does_more_than_compute_weights_is_refused(folder: Path) -> None:
    network = Plain()
    network.first = Doubled(network.first)
    with pytest.raises(grail.UnsupportedError, match=r"own convolutions would .* of Doubled"):
        grail.torch.compress(network, PIXELS, **CUT)
    network = Plain()
    network.first.register_forward_hook(lambda _layer, _given, made: 2.0 * made)
    with pytest.raises(grail.UnsupportedError, match=r"hooks would change .* those of Conv2d"):
        grail.torch.compress(network, PIXELS, **CUT)


def test_constants_and_what_inference_does_not_use(folder: Path) -> None:
    cut = grail.torch.compress(made(WithoutScale), PIXELS, **CUT).module
    assert cut.norm.num_features == len(cut.norm.running_mean) == 48
    network = Unused()
    with pytest.warns(grail.errors.GrailWarning, match=r"not use 'aid.weight', one of 2 "):
        cut = grail.torch.compress(network, PIXELS, **CUT).module
    assert same(cut.aid.state_dict(), network.aid.state_dict())


def test_maps_and_several_outputs(folder: Path) -> None:
    torch.manual_seed(0)
    network = Maps()
    narrow = grail.torch.compress(network, PIXELS, **CUT)
    assert narrow.module.first.out_channels == 48 == narrow.module.second.in_channels
    assert narrow.difference is not None and narrow.difference < 1e-5
    found, dense = outputs(narrow.module), outputs(network)
    assert found.keys() == dense.keys() == {"large", "classes"}
    assert all(apart(found[name], dense[name]) < 0.3 for name in dense)


@pytest.mark.parametrize("shape", [(24, 12), (24, 2, 50), (24, 3, 12, 20)])
def test_vectors_signals_and_images_that_are_not_square(folder: Path, shape: Any) -> None:
    torch.manual_seed(0)
    vectors = nn.Sequential(nn.Linear(12, 64), nn.GELU(), nn.Linear(64, 5))
    network = {2: vectors, 3: Signals(), 4: Plain()}[len(shape)]
    samples = torch.randn(shape, generator=torch.Generator().manual_seed(2))
    narrow = grail.torch.compress(network, samples, **CUT)
    assert narrow.report.ratio < 0.85
    assert narrow.difference is not None and narrow.difference < 1e-5
    assert apart(outputs(narrow.module, samples), outputs(network, samples)) < 0.3


class Words(nn.Module):  # type: ignore[name-defined,misc]
    """Vectors of words, and an FFN beside them."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(40, 16)
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, words: Any) -> Any:
        x = self.table(words)
        return x + self.down(nn.functional.gelu(self.up(x), approximate="tanh"))


class Attends(nn.Module):  # type: ignore[name-defined,misc]
    """Its code has the number of heads."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 4, 4)
        self.num_heads = 4
        self.qkv, self.proj = nn.Linear(32, 96), nn.Linear(32, 32)
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 5)

    def forward(self, x: Any) -> Any:
        x = self.stem(x).flatten(2).transpose(1, 2)
        made = self.qkv(x).reshape(x.shape[0], 16, 3, self.num_heads, 8).permute(2, 0, 3, 1, 4)
        made = nn.functional.scaled_dot_product_attention(*made.unbind(0))
        x = x + self.proj(made.transpose(1, 2).reshape(x.shape[0], 16, self.num_heads * 8))
        return self.head(self.norm(x).mean(1))


def test_counts_of_heads_in_the_code_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(5)
    dense = Attends().eval()
    cut = {"sites": "heads", "sparsity": 0.5, "progress": False}
    made = grail.torch.compress(dense, PIXELS, **cut)
    assert made.module.num_heads == 2 and dense.num_heads == 4 and made.difference < 1e-5
    assert made.module.qkv.out_features == 48 and made.module.proj.in_features == 16
    monkeypatch.setattr("grail.exported.set_counts", lambda *_: None)
    with pytest.raises(grail.UnsupportedError, match="it does not run with narrow layers: shape"):
        grail.torch.compress(dense, PIXELS, **cut)


class Biased(nn.Module):  # type: ignore[name-defined,misc]
    """Scores have biases of each head, rows of a table by the distance, in windows of an image."""

    def __init__(self, changes: bool = False) -> None:
        super().__init__()
        self.changes, self.num_heads = changes, 4
        self.stem = nn.Conv2d(3, 32, 2, 2)
        self.qkv, self.proj = nn.Linear(32, 96), nn.Linear(32, 32)
        self.table = nn.Parameter(torch.randn(31, 4))
        at = torch.arange(16)
        self.register_buffer("index", at[:, None] - at[None] + 15)
        self.up, self.down, self.head = nn.Linear(32, 64), nn.Linear(64, 32), nn.Linear(32, 5)

    def forward(self, x: Any) -> Any:
        x = self.stem(x).permute(0, 2, 3, 1)
        n, side = x.shape[0], x.shape[1] // 4
        y = x.reshape(n, side, 4, side, 4, 32).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, 32)
        q, k, v = self.qkv(y).reshape(-1, 16, 3, self.num_heads, 8).permute(2, 0, 3, 1, 4)
        table = self.table.sin() if self.changes else self.table
        biases = table[self.index.view(-1)].view(16, 16, -1).permute(2, 0, 1)
        shares = (0.3 * q @ k.transpose(-2, -1) + biases[None]).softmax(-1)
        y = self.proj((shares @ v).transpose(1, 2).reshape(-1, 16, self.num_heads * 8))
        y = y.reshape(n, side, side, 4, 4, 32).permute(0, 1, 3, 2, 4, 5).reshape(x.shape)
        x = x + y
        x = x + self.down(nn.functional.gelu(self.up(x)))
        return self.head(x.mean((1, 2)))


@pytest.mark.skipif(not RUNS_REGIONS, reason="biases are computed when the file is opened")
def test_biases_of_heads_go_with_them() -> None:
    torch.manual_seed(5)
    dense = Biased().eval()
    with torch.no_grad():
        dense.proj.weight[:, 8:24] = 0  # the heads between the first and the last do nothing
    cut = {"sites": "heads", "sparsity": 0.5, "compensate": "none", "progress": False}
    made = grail.torch.compress(dense, PIXELS, **cut)
    assert made.module.num_heads == 2 and made.difference < 1e-5
    assert torch.equal(made.module.table, dense.table[:, [0, 3]])
    with torch.no_grad():
        assert (made.module(PIXELS) - dense(PIXELS)).abs().max() < 1e-4
    healed = {"heal": "model", "heal_steps": 2, "heal_batch": 4}
    other = grail.torch.compress(Biased(True).eval(), PIXELS, sites="ffn", **CUT, **healed)
    assert other.module.up.out_features < 64 and other.difference < 1e-5
    with pytest.raises(grail.UnsupportedError, match="what is changed is no tensor of the module"):
        grail.torch.compress(Biased(True).eval(), PIXELS, **cut)


class Pooled(nn.Module):  # type: ignore[name-defined,misc]
    """A probe attends to an FFN's outputs, and one tensor holds the maps of its queries, keys and
    values."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 4, 4)
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)
        self.probe = nn.Parameter(torch.randn(1, 1, 32))
        self.pool = nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, x: Any) -> Any:
        x = self.stem(x).flatten(2).transpose(1, 2)
        x = x + self.down(nn.functional.gelu(self.up(x)))
        return self.pool(self.probe.repeat(x.shape[0], 1, 1), x, x)[0][:, 0]


@pytest.mark.skipif(not RUNS_REGIONS, reason="attention to other positions is a region")
def test_a_tensor_whose_parts_are_maps_of_their_own() -> None:
    torch.manual_seed(5)
    dense = Pooled().eval()
    made = grail.torch.compress(dense, PIXELS, sites="ffn", **CUT)
    assert made.module.up.weight.shape[0] < 64 and made.difference < 1e-5
    again = grail.torch.compress(
        dense, PIXELS, sites="ffn", selector="random", compensate="none", **CUT
    )
    with torch.no_grad():
        wanted, full, plain = (m(PIXELS) for m in (dense, made.module, again.module))
    assert (full - wanted).norm() < 0.5 * (plain - wanted).norm()


def test_token_ids_are_those_of_the_first_input() -> None:
    ids = torch.randint(0, 40, (24, 6), generator=torch.Generator().manual_seed(1))
    made = grail.torch.compress(Words().eval(), ids, **CUT)
    assert made.module.up.out_features == 24 and made.difference < 1e-5
    with pytest.raises(grail.ArgumentError, match="token ids of one length"):
        grail.torch.compress(Words().eval(), [[1, 2, 3], [4, 5]], **CUT)


def test_misuse_and_interruption(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = Plain()
    with pytest.raises(grail.UnsupportedError, match=r"cannot export it: .*Input type"):
        grail.torch.compress(network, torch.zeros(4, 8, dtype=torch.int64), **CUT)
    with pytest.raises(grail.ArgumentError, match="outside") as wrong:
        grail.torch.compress(network, PIXELS, sparsity=1.5)
    assert wrong.value.fields == ("sparsity",)
    dry = grail.torch.compress(network, PIXELS, dry_run=True, **CUT)
    assert dry.module is None and "dry run" in dry.reason

    def stop(_step: grail.Step) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        grail.torch.compress(network, PIXELS, sparsity=0.25, progress=stop)
    with torch.no_grad():
        network.first.weight[0, 0] = float("nan")
    with pytest.raises(grail.NumericError, match=r"Plain.onnx: tensor 'first.weight'"):
        grail.torch.compress(network, PIXELS, **CUT)
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(grail.UnsupportedError, match="pip install onnx onnxscript"):
        grail.torch.compress(network, PIXELS, **CUT)


class Sine(nn.Module):  # type: ignore[name-defined,misc]
    def forward(self, x: Any) -> Any:
        return torch.sin(x)


def test_a_module_that_only_looks_like_a_family(folder: Path) -> None:
    torchvision = pytest.importorskip("torchvision")
    block = torchvision.models.resnet.BasicBlock
    network = made(lambda: torchvision.models.ResNet(block, [1, 1, 1, 1], num_classes=10))
    options = {**CUT, "selector": "magnitude-l1", "compensate": "none"}
    assert grail.torch.compress(network, PIXELS, **options).difference is None
    network.layer1[0].relu = Sine()
    if RUNS_REGIONS:
        with pytest.warns(match="computes something else"), pytest.warns(match="to ONNX Runtime"):
            assert grail.torch.compress(network, PIXELS, **options).difference is not None
    else:
        with pytest.raises(grail.UnsupportedError), pytest.warns(match="computes something else"):
            grail.torch.compress(network, PIXELS, **options)
    network.layer1[0].relu = nn.Hardswish()
    with pytest.warns(grail.errors.GrailWarning, match="as those of resnet, but it computes"):
        narrow = grail.torch.compress(network, PIXELS, **options)
    assert narrow.difference is not None
    assert isinstance(narrow.module.layer1[0].relu, nn.Hardswish)


class Affine(nn.Module):  # type: ignore[name-defined,misc]
    def __init__(self, width: int, has_attribute: bool) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        if has_attribute:
            self.channels = [width]

    def forward(self, x: Any) -> Any:
        return x * self.scale


@pytest.mark.parametrize(
    ("dense", "narrow"),
    [
        (lambda n: nn.Linear(n, 8), "in_features"),
        (lambda n: nn.Conv1d(8, n, 3), "out_channels"),
        (lambda n: nn.Conv3d(n, 8, 3), "in_channels"),
        (lambda n: nn.Conv2d(n, 2 * n, 3, groups=n), "groups"),
        (lambda n: nn.Conv2d(2 * n, 8, 3, groups=2), "in_channels"),
        (lambda n: nn.ConvTranspose2d(n, 8, 3), "in_channels"),
        (lambda n: nn.ConvTranspose2d(8, n, 3), "out_channels"),
        (lambda n: nn.ConvTranspose1d(n, n, 3, groups=n), "groups"),
        (lambda n: nn.Conv2d(1, n, 3), "out_channels"),
        (lambda n: nn.BatchNorm1d(n), "num_features"),
        (lambda n: nn.LayerNorm(n), "normalized_shape"),
        (lambda n: nn.GroupNorm(4, n), "num_channels"),
        (lambda n: nn.InstanceNorm2d(n, affine=True), "num_features"),
        (lambda n: nn.GroupNorm(n, n), "num_groups"),
        (lambda n: nn.Embedding(5, n), "embedding_dim"),
        (lambda n: nn.PReLU(n), "num_parameters"),
        (lambda n: Affine(n, False), "training"),
    ],
)
def test_layers_take_other_widths(dense: Any, narrow: str) -> None:
    """A layer of 16 becomes one of 12, in what it says and computes."""
    network, wanted = nn.Sequential(dense(16)), dense(12)
    tensors = {f"0.{name}": tensor.numpy() for name, tensor in wanted.state_dict().items()}
    before = state(network)
    cut, reason = surgery.resized(network, tensors)
    assert cut is not None, reason
    assert same(network.state_dict(), before)
    assert same(cut[0].state_dict(), wanted.state_dict())
    assert repr(cut[0]) == repr(wanted)
    assert getattr(cut[0], narrow) == getattr(wanted, narrow)


def test_layers_that_say_their_width() -> None:
    tensors = {"0.scale": np.ones(12, np.float32)}
    cut, reason = surgery.resized(nn.Sequential(Affine(16, True)), tensors)
    assert cut is None
    assert "Affine '0' has its width, too, as its attribute 'channels'" in reason
    root, _ = surgery.resized(Affine(16, False), {"scale": np.ones(12, np.float32)})
    assert root.scale.shape == (12,) and not root._modules
    assert surgery.resized(root, {"other": np.ones(2)}) == (None, "it has no tensor 'other'")
