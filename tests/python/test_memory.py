"""Models and samples in memory."""

from __future__ import annotations

import gc
import json
import resource
from pathlib import Path

import grail
import numpy as np
import pytest
from conftest import DEMO, TEXT, TINY, contents, read_tensors

BF16 = TINY.with_name("llama3-bf16")


@pytest.mark.parametrize("directory", [TINY, BF16, DEMO])
def test_the_same_as_from_a_directory(tmp_path: Path, directory: Path) -> None:
    tensors, dtypes = read_tensors(directory)
    config = (directory / "config.json").read_text()
    ids = np.random.default_rng(0).integers(0, 96, (16, 32))
    samples = grail.Samples.tokens(ids)
    from_disk = grail.inspect(directory)
    model = grail.Model.from_tensors(config, tensors, dtypes=dtypes)
    assert model.sites == from_disk.sites
    assert grail.eval(model, samples) == grail.eval(directory, samples)
    grail.compress(model, tmp_path / "a", calib=samples, sparsity=0.5)
    grail.compress(directory, tmp_path / "b", calib=samples, sparsity=0.5)
    name = "model.safetensors"
    assert contents(tmp_path / "a")[name] == contents(tmp_path / "b")[name]
    result = grail.compress(model, calib=samples, sparsity=0.5).result
    assert result is not None
    written, written_dtypes = read_tensors(tmp_path / "b")
    assert result.dtypes == written_dtypes
    assert result.keys() == written.keys()
    for key, array in result.items():
        assert np.array_equal(array.view(written[key].dtype), written[key])
    assert result.config == json.loads((tmp_path / "b" / "config.json").read_text())
    again = grail.Model.from_tensors(result.config, result, dtypes=result.dtypes)
    values = [
        grail.eval(one, samples).perplexity for one in (tmp_path / "b", again, result.model())
    ]
    assert values == [values[0]] * 3


def test_a_result_outlives_its_report() -> None:
    samples = grail.Samples.tokens(np.random.default_rng(0).integers(0, 96, (16, 32)))
    report = grail.compress(TINY, calib=samples, sparsity=0.5, eval=samples)
    assert report.result is not None
    assert report.output is None
    assert report.json["narrow"]["parameters"] == report.totals.parameters
    assert report.quality is not None
    assert report.quality.before is not None
    model = report.result.model()
    assert grail.eval(model, samples) == report.quality.result
    expected = {key: array.copy() for key, array in report.result.items()}
    result = report.result
    del report, model
    gc.collect()
    assert all(np.array_equal(result[key], array) for key, array in expected.items())
    with pytest.raises(KeyError):
        result["no-such-tensor"]
    with pytest.raises(grail.ArgumentError, match="give output"):
        grail.compress(TINY, calib=samples, sparsity=0.5, quantize="q8_0")


def test_documents(tmp_path: Path) -> None:
    tensors, _ = read_tensors(DEMO)
    files = {path.name: path.read_bytes() for path in DEMO.glob("*.json")}
    config = files.pop("config.json").decode()
    model = grail.Model.from_tensors(config, tensors, documents=files, name="mine")
    assert "mine" in repr(model)
    few = {"calib": TEXT, "samples": 4, "context": 32, "sparsity": 0.3}
    grail.compress(model, tmp_path / "a", **few)
    grail.compress(DEMO, tmp_path / "b", **few)
    name = "model.safetensors"
    assert contents(tmp_path / "a")[name] == contents(tmp_path / "b")[name]


def test_wrong_tensors() -> None:
    tensors, _ = read_tensors(TINY)
    config = (TINY / "config.json").read_text()
    name = "model.layers.0.mlp.down_proj.weight"

    def with_tensor(tensor: object, **given: object) -> grail.Model:
        return grail.Model.from_tensors(config, {**tensors, name: tensor}, **given)

    with pytest.raises(TypeError, match=f"tensor '{name}' is an array of numpy or DLPack"):
        with_tensor([1.0, 2.0])
    with pytest.raises(TypeError, match="another byte order"):
        with_tensor(tensors[name].astype(">f4"))
    with pytest.raises(TypeError, match="of a kind that grail has not"):
        with_tensor(np.array(["a"]))
    with pytest.raises(TypeError, match="does not hold BF16"):
        with_tensor(tensors[name], dtypes={name: "BF16"})
    with pytest.raises(grail.GrailError, match=name):
        with_tensor(tensors[name][:-1])
    with pytest.raises(grail.GrailError, match=name):
        grail.Model.from_tensors(config, {key: tensors[key] for key in tensors if key != name})
    with pytest.raises(grail.GrailError):
        grail.Model.from_tensors("{", tensors)
    samples = grail.Samples.tokens(np.zeros((4, 16), int))
    spoiled = tensors[name].copy()
    spoiled[0, 0] = np.nan
    with pytest.raises(grail.NumericError, match="NaN"):
        grail.eval(with_tensor(spoiled), samples)
    transposed = np.ascontiguousarray(tensors[name].T).T  # is copied
    expected = grail.eval(with_tensor(tensors[name]), samples)
    assert grail.eval(with_tensor(transposed), samples) == expected
    with pytest.raises(TypeError, match="token ids are integers"):
        grail.Samples.tokens(np.zeros((4, 16)))


def test_arrays_live_as_long_as_the_model() -> None:
    tensors, _ = read_tensors(TINY)
    model = grail.Model.from_tensors((TINY / "config.json").read_text(), tensors)
    samples = grail.Samples.tokens(np.zeros((4, 16), int))
    expected = grail.eval(model, samples)
    del tensors
    gc.collect()
    other = [np.random.default_rng(0).normal(size=1000) for _ in range(1000)]
    assert grail.eval(model, samples) == expected
    assert len(other) == 1000


def test_no_copy_of_tensors() -> None:
    """A network of 256 MB in memory is opened and described in a few."""
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 1024,
        "intermediate_size": 8192,
        "num_hidden_layers": 1,
        "num_attention_heads": 8,
        "num_key_value_heads": 8,
        "vocab_size": 16384,
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": 64,
        "tie_word_embeddings": False,
    }
    layer = "model.layers.0."
    shapes = {
        "model.embed_tokens.weight": (16384, 1024),
        "lm_head.weight": (16384, 1024),
        "model.norm.weight": (1024,),
        layer + "input_layernorm.weight": (1024,),
        layer + "post_attention_layernorm.weight": (1024,),
        layer + "mlp.gate_proj.weight": (8192, 1024),
        layer + "mlp.up_proj.weight": (8192, 1024),
        layer + "mlp.down_proj.weight": (1024, 8192),
    }
    shapes.update({layer + f"self_attn.{name}_proj.weight": (1024, 1024) for name in "qkvo"})
    tensors = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model = grail.Model.from_tensors(config, tensors)
    assert model.facts.parameters == sum(tensor.size for tensor in tensors.values())
    assert len(model.sites) == 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 20_000  # KiB
