# SPDX-License-Identifier: Apache-2.0
"""FAMILY with widths of its own in each layer: "per_layer_config" in config.json has those in which
a layer differs, and "skip" what it lacks. Written by grail; for transformers 4.57 and newer."""

import copy
from types import SimpleNamespace

import torch
from torch import nn
from transformers.models.MODULE.configuration_MODULE import FAMILYConfig
from transformers.models.MODULE.modeling_MODULE import (
    FAMILYDecoderLayer, FAMILYForCausalLM, FAMILYModel)


class GrailFAMILYConfig(FAMILYConfig):
    # What asks for a width of the whole network gets that of the first layer.
    allow_global_per_layer_attribute_access = True

    def validate_architecture(self):
        """Heads need not fill the hidden width, since head_dim says how wide they are."""

    @property
    def block_configs(self):
        """What vLLM's DeciLMForCausalLM reads of each layer, whose query heads it takes from here."""
        layers = [layer_config(self, i) for i in range(self.num_hidden_layers)]
        return [block_config(own, self.num_attention_heads) for own in layers]


class NoAttention(nn.Module):
    """Adds nothing, but counts positions in the cache as an attention does."""

    def __init__(self, layer_idx):
        super().__init__()
        self.layer_idx = layer_idx

    def forward(self, hidden_states, cache=None, past_key_values=None, **kwargs):
        cache = past_key_values if cache is None else cache
        if cache is not None:
            batch, positions = hidden_states.shape[:2]
            nothing = hidden_states.new_zeros(batch, 1, positions, 1)
            cache.update(nothing, nothing, self.layer_idx)
        return torch.zeros_like(hidden_states), None


class NoFeedForward(nn.Module):
    def forward(self, hidden_states):
        return torch.zeros_like(hidden_states)


def layer_config(config, index):
    layers = config.per_layer_config
    if not isinstance(layers, dict):  # transformers itself reads the key since 5.15
        return layers[index]
    own = copy.copy(config)
    for key, value in layers.get(str(index), {}).items():
        setattr(own, key, value)
    return own


def block_config(own, heads):
    skip = getattr(own, "skip", [])
    attention = SimpleNamespace(no_op="attention" in skip)
    ffn = SimpleNamespace(no_op="mlp" in skip)
    if not attention.no_op and own.num_attention_heads != heads:
        raise ValueError("DeciLMForCausalLM takes one number of query heads for all layers")
    if not attention.no_op:
        attention.n_heads_in_group = heads // own.num_key_value_heads
    if not ffn.no_op:
        ffn.intermediate_size = own.intermediate_size
    return SimpleNamespace(attention=attention, ffn=ffn)


def make_layer(config, index):
    own = layer_config(config, index)
    layer = FAMILYDecoderLayer(own, index)
    layer.self_attn.config = config  # whose kind of attention can still be changed
    skip = getattr(own, "skip", [])
    if "attention" in skip:
        layer.input_layernorm, layer.self_attn = nn.Identity(), NoAttention(index)
    if "mlp" in skip:
        layer.post_attention_layernorm, layer.mlp = nn.Identity(), NoFeedForward()
    return layer


class GrailFAMILYModel(FAMILYModel):
    config_class = GrailFAMILYConfig

    def __init__(self, config):
        super().__init__(config)
        self.layers = nn.ModuleList(make_layer(config, i) for i in range(config.num_hidden_layers))
        self.post_init()


class GrailFAMILYForCausalLM(FAMILYForCausalLM):
    config_class = GrailFAMILYConfig

    def __init__(self, config):
        super().__init__(config)
        self.model = GrailFAMILYModel(config)
        self.post_init()
