#!/usr/bin/env python3
"""Checks that what vLLM's DeciLMForCausalLM reads of a result whose layers differ gives the shapes of its tensors:
config.block_configs, which modeling_grail.py makes of "per_layer_config", with the settings of the whole network.

usage: check_deci.py DIRECTORY...     (transformers, safetensors, torch)

vLLM is not run. What report.json claims for the class must hold. Which attributes are read, in which order, and what they stand for was read in its
vllm/model_executor/models/nemotron_nas.py (commit 00bd1493) and vllm/config/model.py: FFNs as wide as
ffn.intermediate_size where there is no ffn_mult (which is rounded up to 256), key and value heads from
attention.n_heads_in_group, no_op for what a layer lacks, and no residual stream before the first attention.
"""

import json
import pathlib
import pickle
import sys

import safetensors
import transformers


def expected(config):
    """{name: shape} of the tensors that the class makes of the configuration."""
    hidden, heads = config.hidden_size, config.num_attention_heads
    head = getattr(config, "head_dim", None) or hidden // heads
    shapes = {"model.embed_tokens.weight": [config.vocab_size, hidden], "model.norm.weight": [hidden]}
    if not config.tie_word_embeddings:
        shapes["lm_head.weight"] = [config.vocab_size, hidden]
    bias = getattr(config, "attention_bias", False)
    for i, block in enumerate(config.block_configs[0:config.num_hidden_layers]):
        layer = f"model.layers.{i}."
        if not block.attention.no_op:
            values = heads // block.attention.n_heads_in_group
            shapes[layer + "input_layernorm.weight"] = [hidden]
            for name, rows in (("q", heads), ("k", values), ("v", values)):
                shapes[f"{layer}self_attn.{name}_proj.weight"] = [rows * head, hidden]
                if bias:
                    shapes[f"{layer}self_attn.{name}_proj.bias"] = [rows * head]
            shapes[layer + "self_attn.o_proj.weight"] = [hidden, heads * head]
            if bias:
                shapes[layer + "self_attn.o_proj.bias"] = [hidden]
        elif i == 0:
            raise ValueError("the first layer has no attention to begin the residual stream")
        if not block.ffn.no_op:
            if hasattr(block.ffn, "ffn_mult"):
                raise ValueError("ffn_mult goes before intermediate_size, and is rounded up to 256")
            width = block.ffn.intermediate_size
            shapes[layer + "post_attention_layernorm.weight"] = [hidden]
            for name, shape in (("gate", [width, hidden]), ("up", [width, hidden]), ("down", [hidden, width])):
                shapes[f"{layer}mlp.{name}_proj.weight"] = shape
                if getattr(config, "mlp_bias", False):
                    shapes[f"{layer}mlp.{name}_proj.bias"] = shape[:1]
    return shapes


def stored(directory):
    shapes = {}
    for path in directory.glob("*.safetensors"):
        with safetensors.safe_open(path, "pt") as file:
            shapes.update({name: list(file.get_slice(name).get_shape()) for name in file.keys()})
    return shapes


def check(directory):
    config = transformers.AutoConfig.from_pretrained(directory, trust_remote_code=True)
    before = config.to_dict()
    config.update({"architectures": ["DeciLMForCausalLM"]})  # as --hf-overrides does
    wanted, found = expected(config), stored(directory)
    wrong = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
    if wrong:
        return f"{wrong[0]} is {found.get(wrong[0])}, and DeciLMForCausalLM makes {wanted.get(wrong[0])}"
    pickle.dumps(config.block_configs)  # for the processes that vLLM starts
    config.update({"architectures": before["architectures"]})
    return "" if config.to_dict() == before and "block_configs" not in before else "the configuration changes"


def is_claimed(directory):
    loaders = json.loads((directory / "report.json").read_text())["loaders"]
    return any("DeciLMForCausalLM" in one["reason"] for one in loaders if one["loader"] == "vLLM" and one["loads"])


def main():
    failed = False
    print(f"transformers {transformers.__version__}")
    for directory in map(pathlib.Path, sys.argv[1:]):
        try:
            wrong = check(directory)
        except Exception as error:  # whatever is raised is the finding
            wrong = " ".join(f"{type(error).__name__}: {error}".split())
        claimed = is_claimed(directory)
        failed = failed or (claimed and bool(wrong))
        print(f"{directory.name}: {'claimed' if claimed else 'not claimed'}, {wrong or 'shapes fit'}")
    sys.exit(1 if failed or len(sys.argv) < 2 else 0)


main()
