"""What gpu_shapes.py runs in PyTorch: a checkpoint with random weights, one large product, the paper's steps for a block, and healing."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

REMOVED = 0.3  # share of neurons and heads that go


@dataclasses.dataclass(frozen=True)
class Shape:
    """A decoder as llama's; `layers` are those of the whole network, of which a checkpoint has a few."""

    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    layers: int
    vocabulary: int

    @property
    def head(self) -> int:
        return self.hidden // self.heads

    def matrices(self) -> dict[str, tuple[int, int]]:
        """Rows and columns of the matrices of a layer."""
        h, kv = self.hidden, self.kv_heads * self.head
        return {
            "self_attn.q_proj": (h, h), "self_attn.k_proj": (kv, h), "self_attn.v_proj": (kv, h), "self_attn.o_proj": (h, h),
            "mlp.gate_proj": (self.ffn, h), "mlp.up_proj": (self.ffn, h), "mlp.down_proj": (h, self.ffn),
        }  # fmt: skip


def figure(value: float | None, unit: str, how: str = "measured") -> dict[str, Any]:
    return {"value": value, "unit": unit, "how": how}


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def best_of(device: str, step: Callable[[], None], times: int) -> float:
    """The least seconds of one step, after one that warms up."""
    step()
    least = math.inf
    for _ in range(times):
        synchronize(device)
        start = time.monotonic()
        step()
        synchronize(device)
        least = min(least, time.monotonic() - start)
    return least


def device_peak(device: str) -> float | None:
    return torch.cuda.max_memory_allocated() if device == "cuda" else None


def make_checkpoint(directory: str, shape: Shape, blocks: int, windows: int, tokens: int, device: str) -> dict[str, Any]:
    """A checkpoint in bf16, whose products keep the scale of their inputs, and token ids beside it."""
    torch.manual_seed(0)
    model = Path(directory) / "dense"
    model.mkdir()
    h = shape.hidden

    def normal(rows: int, columns: int, scale: float) -> Tensor:
        return (torch.randn(rows, columns, device=device, dtype=torch.float32) * scale).to(torch.bfloat16).cpu()

    ones = torch.ones(h, dtype=torch.bfloat16)
    tensors = {
        "model.embed_tokens.weight": normal(shape.vocabulary, h, 1.0),
        "lm_head.weight": normal(shape.vocabulary, h, h**-0.5),
        "model.norm.weight": ones.clone(),
    }
    for block in range(blocks):
        layer = f"model.layers.{block}."
        for name, (rows, columns) in shape.matrices().items():
            tensors[f"{layer}{name}.weight"] = normal(rows, columns, columns**-0.5)
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{layer}{name}.weight"] = ones.clone()
    save_file(tensors, model / "model.safetensors", metadata={"format": "pt"})
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": h, "intermediate_size": shape.ffn,
        "num_hidden_layers": blocks, "num_attention_heads": shape.heads, "num_key_value_heads": shape.kv_heads,
        "vocab_size": shape.vocabulary, "max_position_embeddings": tokens, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "hidden_act": "silu", "tie_word_embeddings": False, "torch_dtype": "bfloat16",
    }  # fmt: skip
    (model / "config.json").write_text(json.dumps(config, indent=1))
    ids = numpy.random.default_rng(0).integers(0, shape.vocabulary, (windows, tokens), dtype=numpy.int32)
    numpy.save(Path(directory) / "ids.npy", ids)
    return {"bytes": figure(sum(t.numel() * t.element_size() for t in tensors.values()), "bytes")}


def measure_peak(device: str) -> dict[str, Any]:
    cuda = device == "cuda"
    side, times, dtype = (8192, 40, torch.bfloat16) if cuda else (512, 3, torch.float32)
    a, b = (torch.randn(side, side, device=device, dtype=dtype) for _ in range(2))
    out = torch.empty(side, side, device=device, dtype=dtype)

    def step() -> None:
        for _ in range(times):
            torch.mm(a, b, out=out)

    seconds = best_of(device, step, 4) / times
    free, total = torch.cuda.mem_get_info() if cuda else (None, None)
    return {
        "device_name": torch.cuda.get_device_name() if cuda else "processor",
        "product_side": side,
        "product_type": str(dtype).removeprefix("torch."),
        "product_rate": figure(2 * side**3 / seconds / 1e12, "TFLOP/s"),
        "device_free": figure(free, "bytes"),
        "device_total": figure(total, "bytes"),
    }


class Inputs:
    """What the paper's hooks keep of a matrix's inputs: norms of features as Wanda takes them, and the Gram matrix in f32."""

    def __init__(self, columns: int, device: str) -> None:
        self.squares = torch.zeros(columns, device=device)
        self.gram = torch.zeros(columns, columns, device=device)
        self.windows = 0

    def add(self, _module: Any, arguments: tuple[Any, ...], _output: Any) -> None:
        x = arguments[0].reshape(-1, arguments[0].shape[-1]).t().float()
        self.squares *= self.windows / (self.windows + 1)
        self.windows += 1
        self.squares += x.norm(p=2, dim=1) ** 2 / self.windows
        self.gram += x @ x.t()


def narrow_consumer(layer: Any, name: str, inputs: Inputs, shape: Shape) -> Tensor:
    """The paper's choice for one consumer: units by their mean score, producers' rows and consumer's columns; the kept features."""
    heads = name == "o"
    consumer = layer.self_attn.o_proj if heads else layer.mlp.down_proj
    score = (consumer.weight.abs() * inputs.squares.sqrt()).mean(0)
    if heads:
        score = score.reshape(shape.kv_heads, -1).sum(1)
    threshold = score.sort()[0][int(REMOVED * score.numel())]
    units = (score >= threshold).nonzero().flatten()
    width = consumer.weight.shape[1] // score.numel()
    features = features_of(units, width)
    if heads:
        attention, kv = layer.self_attn, features_of(units, shape.head)
        producers = [(attention.q_proj, features), (attention.k_proj, kv), (attention.v_proj, kv)]
    else:
        producers = [(layer.mlp.gate_proj, features), (layer.mlp.up_proj, features)]
    for producer, rows in producers:
        producer.weight.data = producer.weight.data[rows]
    consumer.weight.data = consumer.weight.data[:, features]
    return features


def features_of(units: Tensor, width: int) -> Tensor:
    return (units[:, None] * width + torch.arange(width, device=units.device)).flatten()


def repair_consumer(consumer: Any, dense: Tensor, features: Tensor, gram: Tensor) -> None:
    """The paper's map from kept features to all, with all of these as right sides, merged into the consumer."""
    a = gram[features][:, features]
    a += 1e-3 * (a.diagonal().mean() + 1e-3) * torch.eye(len(features), device=a.device)
    merge = torch.linalg.solve(a, gram[features])
    if not bool(merge.isfinite().all()):
        raise ValueError("the merge map is not finite")
    consumer.weight.data = (dense.float() @ merge.t()).to(dense.dtype)


def paper_block(shape: Shape, inputs: Tensor, outputs: Tensor, device: str) -> dict[str, float]:
    """Seconds of the paper's steps for one block."""
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

    tokens, dtype = inputs.shape[1], inputs.dtype
    config = LlamaConfig(
        hidden_size=shape.hidden, intermediate_size=shape.ffn, num_attention_heads=shape.heads, num_key_value_heads=shape.kv_heads,
        max_position_embeddings=tokens, vocab_size=128,
    )  # fmt: skip
    config._attn_implementation = "sdpa"
    with torch.device(device):
        layer = LlamaDecoderLayer(config, 0).to(dtype)
        rotary = LlamaRotaryEmbedding(config)
    for parameter in layer.parameters():
        if parameter.dim() == 2:
            torch.nn.init.normal_(parameter, 0, parameter.shape[1] ** -0.5)
    positions = torch.arange(tokens, device=device)[None]
    embeddings = rotary(torch.zeros(1, tokens, shape.hidden, dtype=dtype, device=device), positions)

    def forward(window: Tensor) -> Tensor:
        out = layer(window[None].to(device), attention_mask=None, position_ids=positions, position_embeddings=embeddings)
        return out[0] if isinstance(out, tuple) else out

    consumers = {"o": layer.self_attn.o_proj, "down": layer.mlp.down_proj}
    kept = {name: Inputs(consumer.weight.shape[1], device) for name, consumer in consumers.items()}
    hooks = [consumer.register_forward_hook(kept[name].add) for name, consumer in consumers.items()]
    seconds: dict[str, float] = {}
    synchronize(device)
    start = last = time.monotonic()

    def lap(name: str) -> None:
        nonlocal last
        synchronize(device)
        seconds[name], last = time.monotonic() - last, time.monotonic()

    for window in inputs:
        forward(window)
    for hook in hooks:
        hook.remove()
    lap("dense_pass")
    dense = {name: consumer.weight.data.clone() for name, consumer in consumers.items()}
    narrowed = {name: narrow_consumer(layer, name, kept[name], shape) for name in consumers}
    lap("select")
    for name, consumer in consumers.items():
        repair_consumer(consumer, dense[name], narrowed[name], kept[name].gram)
    lap("solve")
    for i, window in enumerate(inputs):
        outputs[i] = forward(window)[0].cpu()
    lap("narrow_pass")
    seconds["block"] = time.monotonic() - start
    return seconds


def measure_paper(shape: Shape, windows: int, tokens: int, device: str) -> dict[str, Any]:
    """The paper's steps for two blocks, the second of which counts: the first one warms up."""
    torch.manual_seed(0)
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    inputs, outputs = (torch.zeros(windows, tokens, shape.hidden, dtype=dtype) for _ in range(2))
    for window in inputs:
        window.copy_(torch.randn(tokens, shape.hidden, device=device))
    with torch.no_grad():
        first = paper_block(shape, inputs, outputs, device)
        second = paper_block(shape, outputs, inputs, device)
    figures = {f"{name}_per_block" if name != "block" else "block": figure(value, "s") for name, value in second.items()}
    figures["first_block"] = figure(first["block"], "s")
    figures["all_blocks"] = figure(second["block"] * shape.layers, "s", "computed")
    figures["device_peak"] = figure(device_peak(device), "bytes")
    return figures


class PlainBlock:
    """One decoder block in PyTorch's own fused operators, of a number of heads and neurons."""

    def __init__(self, shape: Shape, heads: int, neurons: int, tokens: int, device: str) -> None:
        self.shape, self.heads, self.tokens = shape, heads, tokens
        self.kv_heads = max(1, heads * shape.kv_heads // shape.heads)
        dtype = torch.bfloat16 if device == "cuda" else torch.float32
        h, o, kv = shape.hidden, heads * shape.head, self.kv_heads * shape.head
        sizes = ((o + 2 * kv, h), (h, o), (2 * neurons, h), (h, neurons))
        self.weights = [torch.randn(s, device=device, dtype=dtype) * s[1] ** -0.5 for s in sizes]
        self.one = torch.ones(h, device=device, dtype=dtype)
        steps = torch.arange(tokens, device=device)[:, None]
        angles = steps * 10000.0 ** (-torch.arange(0, shape.head, 2, device=device) / shape.head)
        self.cos, self.sin = angles.cos().to(dtype)[None, :, None], angles.sin().to(dtype)[None, :, None]

    def turn(self, x: Tensor) -> Tensor:
        a, b = x.chunk(2, -1)
        return torch.cat((a * self.cos - b * self.sin, b * self.cos + a * self.sin), -1).transpose(1, 2)

    def __call__(self, x: Tensor) -> Tensor:
        h, head = self.shape.hidden, self.shape.head
        qkv, out, gate_up, down = self.weights
        every = F.linear(F.rms_norm(x, (h,), self.one, 1e-5), qkv).view(-1, self.tokens, self.heads + 2 * self.kv_heads, head)
        q, k, v = every.split((self.heads, self.kv_heads, self.kv_heads), 2)
        group = self.kv_heads != self.heads
        mixed = F.scaled_dot_product_attention(self.turn(q), self.turn(k), v.transpose(1, 2), is_causal=True, enable_gqa=group)
        x = x + F.linear(mixed.transpose(1, 2).reshape(-1, self.heads * head), out)
        gate, up = F.linear(F.rms_norm(x, (h,), self.one, 1e-5), gate_up).chunk(2, -1)
        return x + F.linear(F.silu(gate) * up, down)


def measure_plain(shape: Shape, kept: dict[str, int], tokens: int, device: str) -> dict[str, Any]:
    """Tokens a second of training in plain PyTorch; AdamW fused on a GPU, in the values' own type."""
    torch.manual_seed(0)
    cuda = device == "cuda"
    dtype = torch.bfloat16 if cuda else torch.float32
    heads = kept["heads"] // shape.head
    figures: dict[str, Any] = {}

    def train(layers: int, windows: int, model: bool) -> float:
        dense = [PlainBlock(shape, shape.heads, shape.ffn, tokens, device) for _ in range(layers)]
        narrow = [PlainBlock(shape, heads, kept["ffn"], tokens, device) for _ in range(layers)]
        weights = [w.requires_grad_() for block in narrow for w in block.weights]
        optimizer = torch.optim.AdamW(weights, lr=1e-5, fused=cuda)
        x = torch.randn(windows * tokens, shape.hidden, device=device, dtype=dtype)
        table = torch.randn(shape.vocabulary, shape.hidden, device=device, dtype=dtype) * shape.hidden**-0.5

        def run(blocks: list[PlainBlock]) -> Tensor:
            y = x
            for block in blocks:
                y = block(y)
            if not model:
                return y
            y = F.linear(F.rms_norm(y, (shape.hidden,), blocks[0].one, 1e-5), table)
            return F.log_softmax(y, -1, dtype=torch.float32)

        def step() -> None:
            with torch.no_grad():
                target = run(dense)
            mine = run(narrow)
            loss = F.kl_div(mine, target, log_target=True, reduction="batchmean") if model else F.mse_loss(mine, target)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

        return windows * tokens / best_of(device, step, 4)

    for name, layers, windows, model in (
        ("block_one_window", 1, 1, False), ("block_eight_windows", 1, 8, False),
        ("four_layers_one_window", 4, 1, True), ("four_layers_four_windows", 4, 4, True),
    ):  # fmt: skip
        try:
            figures[name] = figure(train(layers, windows, model), "tokens/s")
        except torch.OutOfMemoryError as error:
            figures[name] = {**figure(None, "tokens/s"), "failure": str(error)[:300]}
        if cuda:
            torch.cuda.empty_cache()
    figures["device_peak"] = figure(device_peak(device), "bytes")
    return figures
