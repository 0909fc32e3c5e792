# SPDX-License-Identifier: Apache-2.0
"""FAMILY with widths of its own in each layer: "per_layer_config" in config.json has those in which
a layer differs, and "skip" what it lacks. Written by grail; for transformers 4.57 and newer."""

import copy

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
