#!/usr/bin/env python3
"""Writes the seed inputs of the fuzzers to fuzz/corpus/<fuzzer>/.

Seeds are small files that reach different branches of a parser: accepted ones and, mostly, ones
that break a single rule. What a fuzzer found is kept beside them under names beginning with
"found-", which this script leaves alone.
"""

import io
import json
import pathlib
import struct
import zipfile
import zlib

CORPUS = pathlib.Path(__file__).resolve().parent.parent / "fuzz" / "corpus"


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def safetensors_file(header, data_size=0, length=None):
    text = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + bytes(data_size)


def safetensors_seeds():
    u8 = entry("U8", [2], 0, 2)
    dtypes = {"F64": 8, "I32": 4, "BF16": 2, "F8_E4M3": 1}
    mixed, at = {"__metadata__": {"format": "pt"}}, 0
    for name, width in dtypes.items():
        mixed[f"layer.{name}"] = entry(name, [2, 3], at, at + 6 * width)
        at += 6 * width
    yield "empty-header", safetensors_file({})
    yield "one", safetensors_file({"a": u8}, 2)
    yield "mixed", safetensors_file(mixed, at)
    yield "padded", safetensors_file(b'{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}   ', 2)
    yield "whitespace", safetensors_file(b"\n\t {}\r\n")
    yield "scalar", safetensors_file({"a": entry("F32", [], 0, 4)}, 4)
    yield "zero-size", safetensors_file(
        {"a": u8, "b": entry("F32", [0, 7], 2, 2), "c": entry("U8", [1], 2, 3)}, 3)
    yield "f4", safetensors_file({"a": entry("F4", [2, 3], 0, 3)}, 3)
    yield "extra-field", safetensors_file({"a": dict(u8, extra={"k": 1})}, 2)
    yield "null-metadata", safetensors_file({"__metadata__": None, "a": u8}, 2)
    yield "escaped", safetensors_file(b'{"\\u0061\\ud83d\\ude00\\"":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', 1)
    yield "bad-short", b"\x02\0\0\0"
    yield "bad-length", safetensors_file({}, 0, 1 << 40)
    yield "bad-length-by-one", safetensors_file({}, 0, 3)
    yield "bad-no-header", safetensors_file(b"")
    yield "bad-array", safetensors_file(b"[]")
    yield "bad-json", safetensors_file(b'{"a":')
    yield "bad-utf8", safetensors_file(b'{"\xff":1}')
    yield "bad-surrogate", safetensors_file(b'{"\\ud800":1}')
    yield "bad-nul", safetensors_file(b"{}\0\0\0\0\0\0")
    yield "bad-twice", safetensors_file(b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}')
    yield "bad-deep", safetensors_file(b'{"a":{"b":[[[[1]]]]}}')
    yield "bad-metadata", safetensors_file({"__metadata__": {"a": 1}})
    yield "bad-entry", safetensors_file({"a": 7})
    yield "bad-dtype", safetensors_file({"a": entry("u8", [2], 0, 2)}, 2)
    yield "bad-shape", safetensors_file({"a": entry("U8", [2.0], 0, 2)}, 2)
    yield "bad-negative", safetensors_file({"a": entry("U8", [-2], 0, 2)}, 2)
    yield "bad-overflow", safetensors_file({"a": entry("U8", [2**62, 2**62, 0], 0, 0)})
    yield "bad-rank", safetensors_file({"a": entry("U8", [1] * 9, 0, 1)}, 1)
    yield "bad-hole", safetensors_file({"a": entry("U8", [1], 1, 2)}, 2)
    yield "bad-overlap", safetensors_file({"a": u8, "b": entry("U8", [2], 1, 3)}, 3)
    yield "bad-trailing", safetensors_file({"a": u8}, 3)
    yield "bad-missing-data", safetensors_file({"a": u8}, 1)
    yield "bad-size", safetensors_file({"a": entry("U8", [3], 0, 2)}, 2)
    yield "bad-backwards", safetensors_file({"a": entry("U8", [2], 2, 0)}, 2)
    yield from packed_seeds()


def packed_seeds():
    """Matrices of compressed-tensors, which three tensors hold."""

    def packed(rows=2, columns=64, bits=4, groups=2, dtype="F16", said=None, words=None, shape_dtype="I64"):
        header, data = {}, b""
        words = columns * bits // 32 if words is None else words
        for name, kind, shape, content in (
                ("a.weight_packed", "I32", [rows, words], bytes(range(256)) * rows * words),
                ("a.weight_scale", dtype, [rows, groups], struct.pack("<e", 0.5) * rows * groups * 4),
                ("a.weight_shape", shape_dtype, [2], struct.pack("<qq", *(said or (rows, columns))))):
            size = {"I32": 4, "F16": 2, "F32": 4, "I64": 8, "F64": 8}[kind]
            for length in shape:
                size *= length
            header[name] = entry(kind, shape, len(data), len(data) + size)
            data += (content + bytes(size))[:size]
        return safetensors_file(header) + data

    yield "packed", packed()
    yield "packed-8", packed(bits=8, groups=1, dtype="F32")
    yield "bad-packed-words", packed(words=9)
    yield "bad-packed-rows", packed(said=(3, 64))
    yield "bad-packed-negative", packed(said=(2, -64))
    yield "bad-packed-huge", packed(said=(1 << 62, 64))
    yield "bad-packed-groups", packed(groups=3)
    yield "bad-packed-small-groups", packed(groups=4)
    yield "bad-packed-no-groups", packed(groups=0)
    yield "bad-packed-scale", packed(dtype="F64")
    yield "bad-packed-shape", packed(shape_dtype="F64")


def npy_file(dict_text, data, version=1):
    length = "<H" if version == 1 else "<I"
    text = dict_text.encode() + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack(length, len(text)) + text + data


def corpus_seeds():
    def npy(dtype, shape, data, order="False", version=1):
        text = f"{{'descr': '{dtype}', 'fortran_order': {order}, 'shape': {shape}, }}"
        return b"\2" + npy_file(text, data, version)

    yield "text", b"\0Once upon a time.\n\nThere was \xc3\xa9 and \xf0\x9f\x98\x80.\n"
    yield "text-mark", b"\0\xef\xbb\xbftext"
    yield "text-blank", b"\0 \n\t"
    yield "text-empty", b"\0"
    yield "text-bad-overlong", b"\0abcdefghi\xc0\x80"
    yield "text-bad-cut", b"\0abc\xe2\x82"
    yield "lines", b'\1{"text":"one"}\n\n{"id":1,"text":"tw\\u00f6"}\r\n{"text":""}'
    yield "lines-bad-field", b'\1{"txt":"one"}\n'
    yield "lines-bad-type", b'\1{"text":["one"]}\n'
    yield "lines-bad-json", b'\1{"text":"one"}\n{"text":'
    yield "lines-bad-array", b'\1["text"]'
    yield "ids-i4", npy("<i4", "(3,)", struct.pack("<3i", 1, 2, 3))
    yield "ids-rows", npy("<u2", "(2, 2)", struct.pack("<4H", 1, 2, 3, 65535))
    yield "ids-u1", npy("|u1", "(4,)", b"\0\1\2\xff")
    yield "ids-i8-v2", npy("<i8", "(1,)", struct.pack("<q", 7), version=2)
    yield "ids-v3", npy("<u4", "(1,)", struct.pack("<I", 7), version=3)
    yield "ids-bad-version", npy("<i4", "(1,)", bytes(4), version=9)
    yield "ids-bad-negative", npy("<i2", "(1,)", b"\xff\xff")
    yield "ids-bad-large", npy("<u8", "(1,)", b"\xff" * 8)
    yield "ids-bad-order", npy("<i4", "(1, 1)", bytes(4), order="True")
    yield "ids-bad-float", npy("<f4", "(1,)", bytes(4))
    yield "ids-bad-big-endian", npy(">i4", "(1,)", bytes(4))
    yield "ids-bad-rank", npy("<i4", "(1, 1, 1)", bytes(4))
    yield "ids-bad-scalar", npy("<i4", "()", bytes(4))
    yield "ids-bad-overflow", npy("<i8", "(9223372036854775807, 2)", bytes(8))
    yield "ids-bad-short", npy("<i4", "(3,)", bytes(8))
    yield "ids-bad-none", npy("<i4", "(0,)", b"")
    yield "ids-bad-dict", b"\2" + npy_file("{'descr': '<i4', 'shape': (1,)}", bytes(4))
    yield "ids-bad-magic", b"\2\x93NUMPX\1\0\0\0"


def config_text(model_type="llama", **changes):
    base = {"model_type": model_type, "hidden_size": 16, "intermediate_size": 24,
            "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
            "vocab_size": 10}
    return json.dumps(base | changes).encode()


def config_seeds():
    llama3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
              "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
    yield "llama", config_text(attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
                               rms_norm_eps=1e-5, max_position_embeddings=64, hidden_act="gelu")
    yield "llama-rope", config_text(rope_theta=5e5, rope_scaling=llama3)
    yield "llama-rope-v5", config_text(rope_parameters=llama3 | {"rope_theta": 5e5})
    yield "llama-rope-linear", config_text(rope_scaling={"type": "linear", "factor": 2})
    yield "llama-odd-heads", config_text(head_dim=4, num_attention_heads=6, num_key_value_heads=3)
    yield "llama-per-layer", config_text(head_dim=4, per_layer_config={
        "1": {"intermediate_size": 8, "num_attention_heads": 2, "num_key_value_heads": 1}})
    yield "mistral", config_text("mistral", sliding_window=4)
    yield "mistral-no-window", config_text("mistral", sliding_window=None)
    yield "qwen2", config_text("qwen2", use_sliding_window=True, sliding_window=4,
                               max_window_layers=1)
    yield "qwen3", config_text("qwen3", head_dim=8, layer_types=["full_attention"] * 2)
    few = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8}
    yield "qwen2-moe", config_text("qwen2_moe", shared_expert_intermediate_size=12,
                                   mlp_only_layers=[1], decoder_sparse_step=1, **few)
    yield "qwen3-moe-per-layer", config_text("qwen3_moe", norm_topk_prob=True, per_layer_config={
        "0": {"moe_intermediate_size": [8, 4, 2, 1]}}, **few)
    yield "granitemoe", config_text("granitemoe", num_local_experts=3)
    yield "gpt_oss", config_text("gpt_oss", num_local_experts=3, num_experts_per_tok=2,
                                 rope_scaling=None)
    latent = {"num_key_value_heads": 4, "n_routed_experts": 4, "num_experts_per_tok": 2,
              "moe_intermediate_size": 8, "first_k_dense_replace": 1}
    yield "deepseek_v2", config_text("deepseek_v2", q_lora_rank=None, **latent)
    yield "deepseek_v3", config_text("deepseek_v3", n_group=2, topk_group=1, **latent)
    yield "bad-experts", config_text("mixtral", num_local_experts=1 << 40)
    yield "bad-choice", config_text("olmoe", num_experts=2, num_experts_per_tok=3)
    yield "many-layers", config_text(num_hidden_layers=1024)
    yield "bad-type", config_text("gpt2")
    yield "bad-layers", config_text(num_hidden_layers=1 << 40)
    yield "bad-groups", config_text(num_key_value_heads=3)
    yield "bad-head-dim", config_text(head_dim=3)
    yield "bad-act", config_text(hidden_act="xielu")
    yield "bad-rope", config_text(rope_scaling={"rope_type": "yarn"})
    yield "bad-partial", config_text(partial_rotary_factor=0.5)
    yield "bad-size", config_text(hidden_size="16")


def plan_text(*sites, **changes):
    return json.dumps({"grail_plan": 1} | changes | {"sites": list(sites)}).encode()


def plan_seeds():
    heads, ffn = "model.layers.0.self_attn.o_proj", "model.layers.1.mlp.down_proj"
    full = {"enabled": True, "target": "dense", "bias": "auto", "ridge": "prior",
            "alpha": "cross-validation"}
    yield "all", plan_text(
        {"site": heads, "kind": "heads", "selector": "fold", "units": 3, "kept": 2},
        {"site": ffn, "kind": "ffn", "selector": "wanda", "units": 24, "kept": 8},
        gqa="kv-groups", seed=7, compensation=full)
    yield "query-heads", plan_text({"site": heads, "kept": 3}, gqa="query-per-group")
    yield "alpha", plan_text(compensation={"enabled": False, "target": "local", "bias": "on",
                                           "ridge": "zero", "alpha": 0.001})
    yield "empty", plan_text()
    yield "bad-version", b'{"grail_plan": 2, "sites": []}'
    yield "bad-site", plan_text({"site": "lm_head", "kept": 1})
    yield "bad-kept", plan_text({"site": ffn, "kept": 25})
    yield "bad-units", plan_text({"site": ffn, "units": 23, "kept": 2})
    yield "bad-group", plan_text({"site": heads, "kept": 4}, gqa="query-per-group")
    yield "bad-alpha", plan_text(compensation={"alpha": -1})
    yield "bad-name", plan_text(compensation={"target": "none"})
    yield "bad-key", plan_text(repare=True)
    yield "bad-key-compensation", plan_text(compensation={"lambda": 1})
    yield "named-units", plan_text({"site": ffn, "kept": 3, "kept_units": [0, 7, 23]})
    yield "named-query-heads", plan_text({"site": heads, "kept_units": [0, 2, 5]},
                                         gqa="query-per-group")
    yield "bad-named-order", plan_text({"site": ffn, "kept_units": [7, 0]})
    yield "bad-named-unit", plan_text({"site": ffn, "kept_units": [0, 24]})
    yield "bad-named-count", plan_text({"site": ffn, "kept": 4, "kept_units": [0, 1]})
    yield "bad-named-group", plan_text({"site": heads, "kept_units": [0, 1, 2]},
                                       gqa="query-per-group")
    yield "bad-named-fold", plan_text({"site": ffn, "selector": "fold", "kept_units": [0, 1]})
    yield "bad-key-site", plan_text({"site": ffn, "keep": 2})


def recipe_text(**changes):
    recipe = {
        "checkpoints": [{"name": "a", "path": "a.pth"}],
        "selectors": ["wanda"],
        "sparsities": [0.5],
        "compensate": ["none"],
        "sites": ["conv"],
        "calibration": {"path": "c"},
        "evaluation": {"path": "e"},
    }
    return json.dumps({k: v for k, v in (recipe | changes).items() if v is not None}).encode()


def recipe_seeds():
    yield "least", recipe_text()
    yield "most", recipe_text(
        about="all of it",
        checkpoints=[{"name": "a", "path": "a.pth", "settings": {"activation": "gelu", "n": 3, "b": True}},
                     {"name": "b", "path": "/b"}],
        selectors=["random", "magnitude-l1", "magnitude-l2", "wanda", "fold", "random-fold"],
        sparsities=[0, 0.1, 0.30000000000000004, 0.99],
        compensate=["none", "repair", "grail", "grail+repair", "full", "full+repair"],
        heal=["none", "block", "model", "block,model"], heal_steps=160, heal_rate=0.02,
        samples=[8, 1024], seeds=[0, 7, 1 << 53], repeat="calibration",
        sites=["conv", "stream", "ffn", "heads"], loop="open", align=8, select="open", stream_score="all",
        calibration={"path": "c", "preset": "cifar", "split": "train", "size": 32,
                     "mean": [0, 0.5, 1], "std": [1, 2, 3]},
        evaluation={"path": "e", "labels": "l.csv", "images": 2000})
    yield "grids", recipe_text(sparsities=None, grids=[
        {"sparsities": [0.5], "loop": "open"}, {"sparsities": [0.5, 0.25], "checkpoints": ["a"]}])
    yield "many", recipe_text(sparsities=[i / 400 for i in range(400)], samples=list(range(1, 251)))
    yield "bad-many", recipe_text(sparsities=[i / 400 for i in range(400)], samples=list(range(1, 252)))
    texts = [{"name": "x", "kind": "text", "path": "x.txt", "context": 256, "protocol": "lines", "window_bos": True},
             {"name": "y", "kind": "text", "path": "y.jsonl", "field": "story", "checkpoints": ["a"]}]
    yield "texts", recipe_text(calibration=texts, evaluation=texts, outcomes=True, compensate=["own", "full"],
                               target=["local", "dense"], alpha=["cross-validation", 0.5],
                               grids=[{}, {"calibration": ["y"], "refit": "none", "sites": ["ffn"]},
                                      {"limit": "macs", "budget": ["error", "search"], "tries": 3}])
    yield "bad-choice", recipe_text(target=["local", "far"])
    yield "bad-choices", recipe_text(align=list(range(100)), alpha=[i / 100 for i in range(100)])
    yield "bad-text", recipe_text(evaluation={"kind": "text", "path": "e", "split": "test"})
    yield "bad-calibration", recipe_text(calibration=texts, grids=[{"calibration": ["z"]}])
    yield "bad-key", recipe_text(sparsity=1)
    yield "bad-name", recipe_text(checkpoints=[{"name": "a", "path": "p"}, {"name": "a", "path": "q"}])
    yield "bad-settings", recipe_text(checkpoints=[{"name": "a", "path": "p", "settings": {"k": [1]}}])
    yield "bad-heal", recipe_text(heal=["none", "head"])
    yield "bad-sparsity", recipe_text(sparsities=[0.5, 1])
    yield "bad-twice", recipe_text(sparsities=[0.5, 0.25, 0.5])
    yield "bad-seed", recipe_text(seeds=[(1 << 53) + 1])
    yield "bad-list", recipe_text(samples=8)
    yield "bad-site", recipe_text(sites=["conv", "convs"])
    yield "bad-preset", recipe_text(evaluation={"path": "e", "preset": "x"})
    yield "bad-images", recipe_text(calibration={"path": "c", "images": 3})
    yield "bad-mean", recipe_text(calibration={"path": "c", "mean": [1, 2]})
    yield "bad-grid", recipe_text(grids=[{}, {"align": 8}])
    yield "bad-missing", recipe_text(selectors=None)


def cifar_pickle(labels, count=None, dtype=b"u1"):
    """As Python 2 pickled {"labels": [...], "data": uint8 [count, 3072]}."""
    count = len(labels) if count is None else count
    return (b"\x80\2}(U\6labels](" + b"".join(b"K" + bytes([label]) for label in labels) + b"eU\4data"
            b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85U\1b\x87R"
            b"(K\1K" + bytes([count]) + b"M\0\x0c\x86cnumpy\ndtype\nU\2" + dtype +
            b"K\0K\1\x87R(K\3U\1|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb\x89T" +
            struct.pack("<I", 3072 * count) + bytes(3072 * count) + b"tbu.")


def cifar_seeds():
    yield "one", b"\3" + bytes(3072)
    yield "two", b"\0" + bytes(3072) + b"\x09" + bytes(3072)
    yield "python", cifar_pickle([9])
    yield "bad-empty", b""
    yield "bad-label", b"\x0a" + bytes(3072)
    yield "bad-short", b"\3" + bytes(3071)
    yield "python-bad-label", cifar_pickle([10])
    yield "python-bad-count", cifar_pickle([1, 2], 1)
    yield "python-bad-dtype", cifar_pickle([1], dtype=b"i1")
    yield "python-bad-none", b"\x80\2}."
    yield "python-bad-cut", cifar_pickle([9])[:-5]


def image_seeds():
    """Files of the golden tests, complete and damaged, after a byte that chooses preset and size."""
    folder = CORPUS.parent.parent / "tests" / "golden" / "images"
    files = [path for path in sorted(folder.iterdir()) if path.suffix != ".txt"]
    for i, path in enumerate(files):
        yield path.name, bytes([(8 << 2) + i % 3]) + path.read_bytes()
    square = (folder / "rgb-square.jpg").read_bytes()
    yield "as-it-is", bytes([(31 << 2) + 3]) + square
    yield "bad-size", bytes([(30 << 2) + 3]) + square
    yield "bad-cut", b"\x20" + square[:len(square) // 2]
    yield "bad-kind", b"\x20GIF89a"
    yield "bad-empty", b"\x20"


def results_seeds():
    header = {"grail_results": 1, "recipe": {"ratios": [0.5]}, "started": "now",
              "machine": {"cpu": "any", "threads": 2}, "version": "0.1.0"}
    dense = {"dense": {"checkpoint": "a", "architecture": "net", "parameters": 1000, "macs": 2000,
                       "top1": 0.9, "top5": 0.99, "interval": 0.01, "images": 100}}
    site = {"name": "layer.conv", "kind": "conv", "units": 8, "kept": 4, "fit_before": 0.5,
            "fit_after": 0.1, "held_before": 0.6, "held_after": None}

    def cell(compensate="none", sparsity=0.5, top1=0.3, sites=(), **changes):
        settings = {"checkpoint": "a", "selector": "wanda", "sparsity": sparsity,
                    "compensate": compensate, "repair": False, "samples": 64, "seed": 0,
                    "loop": "closed"}
        return {"cell": settings | changes, "top1": top1, "top5": None, "images": 100,
                "parameters": 500, "macs": 900, "interval": 0.05, "peak_bytes": 1e9,
                "seconds": {"calibrate": 1, "compensate": 2.5, "evaluate": 3, "total": 7},
                "sites": list(sites)}

    def text(*lines):
        return "".join(json.dumps(line) + "\n" for line in (header, *lines)).encode()

    repaired = [cell("grail", top1=0.5, sites=[site, site]), cell("full", top1=0.7, sites=[site]),
                cell("full", top1=0.72, samples=8, seed=1), cell("full", 0.9, 0.2, repair=True),
                cell("none", top1=0.4, repair=True)]
    yield "header", text()
    yield "dense", text(dense)
    yield "small", text(dense, cell(), cell(sparsity=0.9, top1=0.1), *repaired)
    yield "checkpoints", text(*(cell(c, checkpoint=f"c{i}", loop="open") for i in range(10)
                                for c in ("none", "full")))
    yield "own-selector", text(cell(selector="<b>&\"'\u0001\u202e"), cell("full", selector="x"))
    yield "failed", text(dense, {"cell": cell()["cell"], "error": "</script>"})
    yield "repeated", text(dense, cell(), cell(top1=0.31))
    training = {"block": None, "steps": 160, "held_loss_before": 0.3, "held_loss_after": 0.2, "seconds": 9}
    yield "healed", text(dense, cell(), cell("full", top1=0.7), *(
        cell("full", top1=0.8, heal=heal) | {"healed": [training | {"block": 0}, training]}
        for heal in ("block", "model", "block,model")))
    def on(name, **quality):
        return {"name": name, "data_sha256": "ab"} | quality

    windows = {"perplexity": 8.5, "perplexity_error": 0.1, "windows": 3, "context": 16}
    texts = [on("x", **windows, losses=[2, 2.5, 1.75]), on("y", perplexity=1e300), on("z", top1=0.5, images=6, hits="a8")]
    lm = {"dense": {"checkpoint": "a", "parameters": 1000, "macs": 2000, "evaluations": texts}}
    narrow = {"cell": cell()["cell"] | {"calibration": "c", "choices": "align=8 target=local"}, "evaluations": texts}
    yield "texts", text(lm, narrow, {"cell": cell("full")["cell"], "evaluations": texts},
                        {"cell": cell("grail")["cell"], "error": "NaN"}, narrow)
    yield "pairs", text(dense | {"dense": dense["dense"] | {"images": 8, "hits": "f0"}},
                        *(c | {"images": 8, "hits": "7c"} for c in (cell(), cell("full"), cell("own"))))
    yield "bad-texts", text(lm, {"cell": cell()["cell"], "evaluations": [on("x", **windows) | {"windows": 4}]})
    yield "bad-losses", text({"dense": {"checkpoint": "a"} | windows | {"losses": [1]}})
    yield "bad-hits", text({"dense": {"checkpoint": "a", "images": 9, "hits": "ff"}})
    yield "nothing", text({"cell": {"checkpoint": "a", "selector": "b", "sparsity": 0,
                                    "compensate": "full"}, "sites": [{"name": "s"}]})
    yield "extremes", text(dict(cell("full", samples=2**62, seed=2**63 - 1, sparsity=0.9999999),
                                peak_bytes=1e18, parameters=1e18, seconds={"calibrate": 1e18}),
                           cell("full", sites=[site | {"fit_before": 1e308, "held_before": -1e308,
                                                       "units": 1e18}]))
    yield "cut", text(dense, cell())[:-30]
    yield "bad-version", b'{"grail_results": 2}\n'
    yield "bad-header", b'{"grail_plan": 1}\n'
    yield "bad-line", text(dense) + b"{}\n"
    yield "bad-sparsity", text(cell(sparsity=1))
    yield "bad-accuracy", text(cell(top1=80))
    yield "bad-compensate", text(cell("most"))
    yield "bad-sites", text(cell(sites=[1]))
    yield "bad-twice", b'{"grail_results": 1, "grail_results": 1}\n'


def pickle_text(text):
    return b"X" + struct.pack("<I", len(text.encode())) + text.encode()


def pickle_tensor(cls="FloatStorage", key="0", elements=6, offset=0, shape=(2, 3), stride=(3, 1),
                  function="_rebuild_tensor_v2", rest=b""):
    """A tensor as torch pickles it; numbers are single bytes."""
    def numbers(values):
        return b"(" + b"".join(b"K" + bytes([v]) for v in values) + b"t"
    return (b"ctorch._utils\n%s\n((" % function.encode() + pickle_text("storage")
            + b"ctorch\n%s\n" % cls.encode() + pickle_text(key) + pickle_text("cpu")
            + b"K" + bytes([elements]) + b"tQK" + bytes([offset]) + numbers(shape)
            + numbers(stride) + b"\x89ccollections\nOrderedDict\n)R" + rest + b"tR")


def pickle_state(*tensors, prefix=b"\x80\x02"):
    items = b"".join(pickle_text(f"t{i}") + tensor for i, tensor in enumerate(tensors))
    return prefix + b"ccollections\nOrderedDict\n)R(" + items + b"u."


def pickle_seeds():
    state = pickle_state(pickle_tensor())
    yield "state", state
    yield "metadata", state[:-1] + b"}" + pickle_text("_metadata") + b"Nsb."
    yield "plain", b"\x80\x02(N\x88\x89K\x05M\xe8\x03J\xfe\xff\xff\xff\x8a\x01\xffG?\xf8" + bytes(6) + b"t."
    yield "protocol-4", (b"\x80\x04\x95\x20" + bytes(7) + b"]\x94(\x8f(K\x01\x90(K\x02\x91\x94C\x02xy"
                         b"\x8c\x01m\x8c\x01c\x93)\x81}bh\x01e.")
    yield "python-2-array", (b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
                             b"(K\x01K\x02K\x01\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNKK"
                             b"KKK\x00tb\x89U\x02abtb.")
    yield "python-3-array", (b"cnumpy._core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85N\x87R(K\x01"
                             b"K\x02\x85cnumpy\ndtype\nU\x02u1\x89\x88\x87R(K\x03U\x01|NNNtb\x89c_codecs\nencode\n"
                             + pickle_text("a\u00ff") + pickle_text("latin1") + b"\x86Rtb.")
    yield "python-5-array", (b"\x80\x05cnumpy.core.numeric\n_frombuffer\n(\x96\x02" + bytes(7) + b"ab"
                             b"cnumpy\ndtype\nU\x02u1\x89\x88\x87RK\x02\x85U\x01CtR.")
    yield "dicts", b"(ccollections\nOrderedDict\n](](U\x01kK\x07ee\x85Rccollections\ndefaultdict\nN}\x86Rt."
    yield "parent", b"cm\nC\n)\x81q\x00}U\x01ph\x00sb."
    yield "bad-global", b"cos\nsystem\nU\x02id\x85R."
    yield "bad-builtin", b"\x8c\x08builtins\x8c\x04eval\x93."
    yield "bad-opcode", b"(S'id'\nios\nsystem\n."
    yield "bad-loop", b"]q\x00h\x00a."
    yield "bad-deep", b"]" * 300 + b"a" * 299 + b"."
    yield "bad-memo", b"Nr\xff\xff\xff\xff."
    yield "bad-copies", (b"c__builtin__\nset\nq\x01(" + b"N" * 400 + b"t\x85q\x02" + b"h\x01h\x02R" * 400 + b".")
    yield "bad-long", b"X\xff\xff\xff\xffabc."
    yield "bad-stack", b"NNu."


def zip_archive(members, compression=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data, compression)
    return out.getvalue()


def torch_archive(*tensors, compression=zipfile.ZIP_STORED, **members):
    return zip_archive({"archive/data.pkl": pickle_state(*tensors), "archive/data/0": bytes(range(24)),
                        "archive/version": "3\n"} | members, compression)


def torch_zip_seeds():
    module = (b"c__torch__\nNet\n)\x81}(" + pickle_text("w") + pickle_tensor() + pickle_text("inner")
              + b"c__torch__.nn\nLinear\n)\x81}" + pickle_text("b") + pickle_tensor() + b"sbub.")
    float8 = pickle_tensor("UntypedStorage", elements=24, function="_rebuild_tensor_v3",
                           rest=b"ctorch\nfloat8_e4m3fn\n")
    complete = torch_archive(pickle_tensor())
    yield "plain", complete
    yield "many", torch_archive(*[pickle_tensor(offset=i, shape=(3,), stride=(1,)) for i in range(4)])
    yield "strided", torch_archive(pickle_tensor(shape=(3, 2), stride=(1, 3)),
                                   pickle_tensor(shape=(9, 9), stride=(0, 0)))
    yield "scalar", torch_archive(pickle_tensor(shape=(), stride=()), float8)
    yield "half", torch_archive(pickle_tensor("HalfStorage", elements=12))
    yield "deflated", torch_archive(pickle_tensor(), compression=zipfile.ZIP_DEFLATED)
    yield "script", zip_archive({"net/data.pkl": module, "net/constants.pkl": ").",
                                 "net/data/0": bytes(24)})
    yield "wrapped", zip_archive({
        "a/data.pkl": b"}(" + pickle_text("epoch") + b"K\x01" + pickle_text("state_dict")
                      + pickle_state(pickle_tensor())[2:-1] + b"u.", "a/data/0": bytes(24)})
    yield "bad-short", torch_archive(pickle_tensor(elements=7))
    yield "bad-reach", torch_archive(pickle_tensor(offset=1))
    yield "bad-key", torch_archive(pickle_tensor(key="1"))
    yield "bad-order", torch_archive(pickle_tensor(), **{"archive/byteorder": "big"})
    yield "bad-roots", torch_archive(pickle_tensor(), **{"other/data.pkl": "}."})
    yield "bad-object", zip_archive({"a/data.pkl": "]."})
    yield "bad-name", zip_archive({"data.pkl": "}."})
    yield "bad-cut", complete[:-1]
    yield "bad-encrypted", complete.replace(b"PK\1\2\x14\3\x14\0\0", b"PK\1\2\x14\3\x14\0\1", 1)
    yield "bad-twice", torch_archive(pickle_tensor(), **{"archive/data/1": bytes(24)}).replace(
        b"archive/data/1", b"archive/data/0")
    yield "bad-size", complete.replace(struct.pack("<II", 24, 24), struct.pack("<II", 25, 25))


def records_text(*records):
    def line(record):
        text = json.dumps(record, separators=(",", ":"))
        return f'{{"record":{text},"crc32":"{zlib.crc32(text.encode()):08x}"}}\n'
    return "".join(map(line, records)).encode()


def state_seeds():
    names = [f"model.layers.{b}.{part}" for b in range(2)
             for part in ("self_attn.o_proj", "mlp.down_proj")]

    def kept(name, **changes):
        units = [0, 2] if "attn" in name else list(range(0, 24, 3))
        return {"site": name, "kept_units": units} | changes

    def folded(name, order=None, **changes):
        labels = [0, 1, 0] if "attn" in name else [j % 8 for j in range(24)]
        more = {"subunit_order": order or [0, 1, 1, 0, 0, 1]} if "attn" in name else {}
        return {"site": name, "labels": labels} | more | changes

    def sites(*records):
        return json.dumps({"block": -1, "sites": list(records)}).encode()

    fit = {"alpha": 0.001, "lambda": 1e-6, "condition": 12.5, "fallback": "lambda raised",
           "bias_fitted": True, "fit_error_before": 0.5, "fit_error_after": 0.1,
           "held_error_before": None, "held_error_after": None}
    consumer = {"consumer": names[1] + ".weight"} | fit
    rest = [kept(name) for name in names[1:]]
    complete = [kept(name, seconds=0.1, solve_seconds=0.0, **fit) for name in names]
    yield "records", records_text({"grail": "0.1.0", "keep_activations": True}, {"laid_out": True},
                                  {"block": 0, "sites": complete[:2], "tensors": {"a": "00000000"}})
    yield "records-torn", records_text({"laid_out": True}, {"block": 0})[:-9]
    yield "records-no-end", records_text({"laid_out": True})[:-1]
    yield "records-bad-end", records_text({"laid_out": True})[:-1] + b"\x0b"
    yield "records-bad-checksum", records_text({"block": 0}).replace(b"0,", b"1,")
    yield "records-bad-json", b'{"record":{,"crc32":"%08x"}\n' % zlib.crc32(b"{")
    yield "kept", sites(*complete)
    yield "folded", sites(*map(folded, names))
    yield "fits", sites(complete[0], kept(names[1], consumers=[consumer]), *complete[2:])
    yield "bad-no-site", sites(*complete[1:])
    yield "bad-count", sites(kept(names[0], kept_units=[0]), *rest)
    yield "bad-twice", sites(kept(names[0], kept_units=[1, 1]), *rest)
    yield "bad-range", sites(kept(names[0], kept_units=[1, 3]), *rest)
    yield "bad-type", sites(kept(names[0], kept_units=["0", None]), *rest)
    yield "bad-label", sites(folded(names[0], labels=[0, 2, 0]), *rest)
    yield "bad-empty-cluster", sites(folded(names[0], labels=[0, 0, 0]), *rest)
    yield "bad-order", sites(folded(names[0], order=[0, 1, 2, 0, 0, 1]), *rest)
    yield "bad-order-count", sites(folded(names[0], order=[0, 1]), *rest)
    yield "bad-consumer", sites(kept(names[0], consumers=[consumer]), *rest)


def statistics_seeds():
    def text(value):
        return struct.pack("<Q", len(value)) + value.encode()

    def key(name, value):
        if isinstance(value, int):
            return text(name) + struct.pack("<II", 4, value)
        if isinstance(value, list):
            return text(name) + struct.pack("<IIQ", 9, 10, len(value)) + struct.pack(f"<{len(value)}Q", *value)
        return text(name) + struct.pack("<I", 8) + text(value)

    kinds = {"f": (0, 4), "e": (1, 2), "q": (27, 8), "d": (28, 8)}

    def gguf(keys, tensors):
        head, data = b"", b""
        for name, (kind, shape, values) in tensors.items():
            number, width = kinds[kind]
            head += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape[::-1])
            head += struct.pack("<IQ", number, len(data))
            data += struct.pack(f"<{len(values)}{kind}", *values)
            data += bytes(-len(data) % 32)
        head = struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(key(*item) for item in keys.items()) + head
        return b"GGUF" + head + bytes(-(len(head) + 4) % 32) + data

    imatrix = {"general.type": "imatrix"}
    origin = dict(imatrix, **{"imatrix.chunk_count": 2, "imatrix.chunk_size": 8, "grail.statistics.version": 1,
                              "grail.statistics.model": "0" * 64, "grail.statistics.precision": "cpu f32",
                              "grail.statistics.conv_fit": "", "grail.statistics.calibrations": '[{"file":"a"}]',
                              "grail.statistics.hashes": [1, 2]})
    vectors = {"x.in_sum2": ("f", [2], [1, 2]), "x.in_sum": ("f", [2], [-1, 1]), "x.counts": ("f", [1], [3])}
    grams = {"x.in_gram": ("d", [2, 2], [2, 1, 1, 2]), "x.gram_sum": ("d", [2], [1, 0]), "x.gram_count": ("q", [1], [3]),
             "x.held_gram": ("d", [2, 2], [1, 0, 0, 1]), "x.held_sum": ("d", [2], [0, 0]),
             "x.held_count": ("q", [1], [1]), "grail.energy": ("d", [3], [1, 2, 3])}

    def with_values(name, values):
        kind, shape, _ = dict(vectors, **grams)[name]
        return gguf(origin, {**vectors, **grams, name: (kind, shape, values)})

    yield "vectors", gguf(imatrix, vectors)
    yield "without-sums", gguf(imatrix, {k: v for k, v in vectors.items() if k != "x.in_sum"})
    yield "experts", gguf(imatrix, {"x.in_sum2": ("f", [2, 2], [1, 2, 3, 4]), "x.counts": ("f", [2], [1, 2])})
    yield "full", gguf(origin, dict(vectors, **grams))
    yield "bad-type", gguf({"general.type": "model"}, vectors)
    yield "bad-version", gguf(dict(origin, **{"grail.statistics.version": 2}), vectors)
    yield "bad-model", gguf(dict(origin, **{"grail.statistics.model": "0"}), vectors)
    yield "bad-calibrations", gguf(dict(origin, **{"grail.statistics.calibrations": "[{]"}), vectors)
    yield "bad-context", gguf(dict(origin, **{"imatrix.chunk_size": 0}), vectors)
    yield "bad-count", with_values("x.held_count", [4])
    yield "bad-negative", with_values("x.in_sum2", [1, -1])
    yield "bad-nan", with_values("x.in_sum", [float("nan"), 0])
    yield "bad-infinite", with_values("x.held_gram", [1, 0, float("inf"), 1])
    yield "bad-energy", with_values("grail.energy", [1, -1, 0])
    yield "bad-half", gguf(imatrix, dict(vectors, **{"x.in_sum2": ("e", [2], [1, 2])}))
    yield "bad-width", gguf(imatrix, dict(vectors, **{"x.counts": ("f", [2], [1, 2])}))
    yield "bad-square", gguf(origin, dict(grams, **{"x.in_gram": ("d", [2, 1], [1, 2])}))
    yield "bad-lonely", gguf(origin, {"x.in_gram": grams["x.in_gram"]})
    yield "bad-cut", gguf(origin, dict(vectors, **grams))[:-8]


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def field(number, value):
    """A field of a protocol buffer: an integer, a float of 32 bits, or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def onnx_attribute(name, kind, *fields):
    return field(5, field(1, name) + b"".join(fields) + field(20, kind))


def onnx_node(operator, inputs, outputs, *fields):
    names = [field(1, n) for n in inputs.split()] + [field(2, n) for n in outputs.split()]
    return field(1, b"".join(names) + field(4, operator) + b"".join(fields))


def onnx_tensor(number, name, element, sizes, *fields):
    return field(number, b"".join(field(1, n) for n in sizes) + field(2, element) + field(8, name) + b"".join(fields))


def onnx_value(number, name, *sizes, element=1):
    shape = b"".join(field(1, field(2, n) if isinstance(n, str) else field(1, n)) for n in sizes)
    return field(number, field(1, name) + field(2, field(1, field(1, element) + field(2, shape))))


def onnx_model(*graph, ir=8, opset=17, more=b""):
    graph = field(2, "g") + b"".join(graph)
    return field(1, ir) + field(2, "seed") + field(7, graph) + field(8, field(2, opset)) + more


def onnx_seeds():
    x, y = onnx_value(11, "x", "N", 2), onnx_value(12, "y", "N", 2)
    relu = onnx_node("Relu", "x", "y")
    raw = field(9, struct.pack("<2f", 1, 2))

    def constant(*attribute):
        return onnx_model(onnx_node("Constant", "", "y", onnx_attribute(*attribute)), y)

    def subgraph(depth):
        inner = onnx_node("Neg", "x", "i") + onnx_value(12, "i")
        for _ in range(depth):
            inner = onnx_node("Loop", "x", "i", onnx_attribute("body", 5, field(6, inner))) + onnx_value(12, "i")
        return onnx_model(x, onnx_node("If", "x", "y", onnx_attribute("then_branch", 5, field(6, inner)),
                                       onnx_attribute("both", 10, field(11, inner), field(11, inner))), y)

    yield "relu", onnx_model(x, relu, y)
    yield "gemm", onnx_model(x, onnx_tensor(5, "w", 1, [2, 2], field(9, bytes(16))), onnx_tensor(5, "b", 1, [2], raw),
                             onnx_value(11, "w", 2, 2),
                             onnx_node("Gemm", "x w b", "h", field(3, "n"), onnx_attribute("transB", 2, field(3, 1)),
                                       onnx_attribute("alpha", 1, field(2, 0.5))),
                             onnx_node("Identity", "h", "y"), onnx_value(13, "h", "N", 2), y,
                             ir=3, opset=7, more=field(14, field(1, "key") + field(2, "value")) + field(999, "unknown"))
    yield "conv", onnx_model(onnx_value(11, "x", 1, 2, 8, 8), onnx_tensor(5, "w", 10, [2, 1, 1, 1], field(5, b"\x01\x02")),
                             onnx_node("Conv", "x w", "y", onnx_attribute("pads", 7, *[field(8, 0)] * 4),
                                       onnx_attribute("auto_pad", 3, field(4, "NOTSET")),
                                       onnx_attribute("strides", 7, field(8, b"\x01\x01"))), y)
    yield "custom", onnx_model(x, onnx_node("Fancy", "x", "y", field(7, "org.example"), field(6, "what it is")), y,
                               more=field(8, field(1, "org.example") + field(2, 3)))
    yield "typed", onnx_model(onnx_tensor(5, "a", 1, [3], field(4, 1.0), field(4, bytes(8))),
                              onnx_tensor(5, "b", 7, [2], field(7, varint(-1) + varint(5))),
                              onnx_tensor(5, "c", 11, [1], field(10, bytes(8))), onnx_tensor(5, "d", 13, [1], field(11, 7)),
                              onnx_tensor(5, "e", 9, [2], field(5, 1), field(5, 0)), onnx_tensor(5, "f", 16, [], field(5, 16256)),
                              onnx_tensor(5, "g", 22, [3], field(9, bytes(2))), onnx_tensor(5, "h", 14, [1], field(9, bytes(8))),
                              onnx_tensor(5, "i", 8, [2], field(6, "x"), field(6, "")), onnx_tensor(5, "j", 1, [0]))
    yield "constant", constant("value", 4, onnx_tensor(5, "", 1, [2], raw))
    yield "constant-float", constant("value_float", 1, field(2, 0.5))
    yield "constant-floats", constant("value_floats", 6, field(7, bytes(8)))
    yield "constant-int", constant("value_int", 2, field(3, -1))
    yield "constant-ints", constant("value_ints", 7, field(8, 1), field(8, -1))
    yield "constant-text", constant("value_string", 3, field(4, b"\xff"))
    yield "if", subgraph(0)
    yield "nested", subgraph(3)
    yield "bad-deep", subgraph(40)
    yield "sequence", onnx_model(field(11, field(1, "x") + field(2, field(4, field(1, field(1, field(1, 1)))))),
                                 onnx_node("SequenceAt", "x", "y"), y)
    yield "bad-opset", onnx_model(x, relu, y, opset=6)
    yield "bad-cut", onnx_model(x, relu, y)[:-3]
    yield "bad-order", onnx_model(x, onnx_node("Relu", "h", "y"), onnx_node("Relu", "x", "h"), y)
    yield "bad-cycle", onnx_model(onnx_node("Relu", "a", "y"), onnx_node("Relu", "y", "a"), y)
    yield "bad-twice", onnx_model(x, relu, relu, y)
    yield "bad-input", onnx_model(x, onnx_node("Relu", "q", "y"), y)
    yield "bad-output", onnx_model(x, y)
    yield "bad-shape", onnx_model(onnx_tensor(5, "w", 1, [3], raw))
    yield "bad-negative", onnx_model(onnx_tensor(5, "w", 1, [-2], raw))
    yield "bad-overflow", onnx_model(onnx_tensor(5, "w", 1, [1 << 40, 1 << 40], raw))
    yield "bad-both", onnx_model(onnx_tensor(5, "w", 1, [2], raw, field(4, bytes(8))))
    yield "bad-field", onnx_model(onnx_tensor(5, "w", 7, [2], field(5, b"\x01\x02")))
    yield "bad-element", onnx_model(onnx_tensor(5, "w", 77, [2], raw))
    yield "bad-outside", onnx_model(onnx_tensor(5, "w", 1, [2], field(13, field(1, "location") + field(2, "../w")),
                                                field(13, field(1, "length") + field(2, "8")), field(14, 1)))
    yield "bad-sparse", onnx_model(field(15, onnx_tensor(1, "s", 1, [2], raw)))
    yield "bad-training", onnx_model(x, relu, y, more=field(20, b""))
    yield "bad-quantised", onnx_model(x, onnx_node("QLinearConv", "x", "y"), y)
    yield "bad-name", onnx_model(x, onnx_node("Relu", "x", "y\0"), y)
    yield "bad-group", onnx_model(x, relu, y) + b"\x0b\x0c"


SEEDS = {"onnx": onnx_seeds, "statistics": statistics_seeds, "safetensors": safetensors_seeds, "corpus": corpus_seeds, "config": config_seeds,
         "plan": plan_seeds, "recipe": recipe_seeds, "cifar": cifar_seeds, "image": image_seeds,
         "results": results_seeds, "state": state_seeds,
         "pickle": pickle_seeds, "torch_zip": torch_zip_seeds}


def main():
    for fuzzer, seeds in SEEDS.items():
        folder = CORPUS / fuzzer
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in seeds():
            (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
