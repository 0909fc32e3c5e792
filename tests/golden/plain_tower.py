"""A plain vision transformer: the forward pass of every ViT and CLIP tower that the golden scripts
know, from the names and shapes of a checkpoint. It takes part in torch's autograd."""

import dataclasses

import torch
from torch.nn import functional


@dataclasses.dataclass(frozen=True)
class Names:
    """What a library calls the parts; None where it has no such part."""
    patch: str
    layer: str
    norms: tuple  # before attention, before the feed-forward part
    qkv: tuple  # one fused name, or three; of the weight, and of the bias
    output: str
    feed_forward: tuple  # up, down
    last_norm: str
    token: str = None
    positions: str = None
    first_norm: str = None
    projection: str = None
    head: str = None


def separate(*names):
    return tuple(f"{name}.weight" for name in names), tuple(f"{name}.bias" for name in names)


TIMM = Names("patch_embed.proj", "blocks.{}.", ("norm1", "norm2"),
             (("attn.qkv.weight",), ("attn.qkv.bias",)), "attn.proj", ("mlp.fc1", "mlp.fc2"),
             "norm", "cls_token", "pos_embed", "norm_pre", head="head")
TORCHVISION = Names("conv_proj", "encoder.layers.encoder_layer_{}.", ("ln_1", "ln_2"),
                    (("self_attention.in_proj_weight",), ("self_attention.in_proj_bias",)),
                    "self_attention.out_proj", ("mlp.0", "mlp.3"), "encoder.ln", "class_token",
                    "encoder.pos_embedding", head="heads.head")
HF_VIT = Names("vit.embeddings.patch_embeddings.projection", "vit.encoder.layer.{}.",
               ("layernorm_before", "layernorm_after"),
               separate(*(f"attention.attention.{part}" for part in ("query", "key", "value"))),
               "attention.output.dense", ("intermediate.dense", "output.dense"), "vit.layernorm",
               "vit.embeddings.cls_token", "vit.embeddings.position_embeddings",
               head="classifier")
SIMPLE_VIT = Names("to_patch_embedding.1", "transformer.layers.{}.", ("0.norm", "1.net.0"),
                   (("0.to_qkv.weight",), ("0.to_qkv.bias",)), "0.to_out",
                   ("1.net.1", "1.net.3"), "linear_head.0", head="linear_head.1")
OPEN_CLIP = Names("visual.conv1", "visual.transformer.resblocks.{}.", ("ln_1", "ln_2"),
                  (("attn.in_proj_weight",), ("attn.in_proj_bias",)), "attn.out_proj",
                  ("mlp.c_fc", "mlp.c_proj"), "visual.ln_post", "visual.class_embedding",
                  "visual.positional_embedding", "visual.ln_pre", "visual.proj")
HF_CLIP = Names("vision_model.embeddings.patch_embedding", "vision_model.encoder.layers.{}.",
                ("layer_norm1", "layer_norm2"),
                separate(*(f"self_attn.{part}_proj" for part in "qkv")), "self_attn.out_proj",
                ("mlp.fc1", "mlp.fc2"), "vision_model.post_layernorm",
                "vision_model.embeddings.class_embedding",
                "vision_model.embeddings.position_embedding.weight",
                "vision_model.pre_layrnorm", "visual_projection.weight")


def soup(names):
    """The wrapper of model soups: the tower in "model", features of unit length, a head."""
    inner = {field: f"model.{getattr(names, field)}"
             for field in ("patch", "layer", "last_norm", "token", "positions", "first_norm",
                           "projection")}
    return dataclasses.replace(names, head="classification_head", **inner)


def quick_gelu(x):
    return x * torch.sigmoid(1.702 * x)


def sincos_positions(side, width):
    """Those of SimpleViT 0.40, [side * side, width]."""
    rate = 10000.0 ** (-torch.arange(width // 4, dtype=torch.float64) / (width // 4 - 1))
    y, x = (place.flatten()[:, None] * rate
            for place in torch.meshgrid(*[torch.arange(side)] * 2, indexing="ij"))
    return torch.cat([x.sin(), x.cos(), y.sin(), y.cos()], 1)


class Tower:
    """weights: f64 tensors by name; epsilon: of all norms."""

    def __init__(self, weights, names, head_dim, epsilon, activation=functional.gelu):
        self.weights, self.names = weights, names
        self.head_dim, self.epsilon, self.activation = head_dim, epsilon, activation

    def linear(self, name, x):
        return functional.linear(x, self.weights[f"{name}.weight"],
                                 self.weights.get(f"{name}.bias"))

    def norm(self, name, x):
        return functional.layer_norm(x, x.shape[-1:], self.weights[f"{name}.weight"],
                                     self.weights[f"{name}.bias"], self.epsilon)

    def embed(self, pixels):
        """Tokens [images, positions, width] of pixels [images, 3, side, side]."""
        names = self.names
        weight = self.weights[f"{names.patch}.weight"]
        bias = self.weights.get(f"{names.patch}.bias")
        if names.positions is None:  # a Linear on features (row, column, channel)
            patch = int((weight.shape[1] / 3)**0.5)
            weight = weight.view(-1, patch, patch, 3).permute(0, 3, 1, 2)
        grid = functional.conv2d(pixels, weight, bias, stride=weight.shape[-1])
        x = grid.flatten(2).transpose(1, 2)
        if names.positions is None:
            return x + sincos_positions(grid.shape[-1], x.shape[-1])
        token = self.weights[names.token].reshape(1, 1, -1).expand(len(x), -1, -1)
        x = torch.cat([token, x], 1)
        return x + self.weights[names.positions].reshape(-1, x.shape[-1])

    def attend(self, layer, x):
        weight_names, bias_names = self.names.qkv
        weight = torch.cat([self.weights[layer + name] for name in weight_names])
        bias = None
        if layer + bias_names[0] in self.weights:
            bias = torch.cat([self.weights[layer + name] for name in bias_names])
        q, k, v = (part.unflatten(2, (-1, self.head_dim)).transpose(1, 2)
                   for part in functional.linear(x, weight, bias).chunk(3, 2))
        scores = (q @ k.transpose(2, 3)) * self.head_dim**-0.5
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        return self.linear(layer + self.names.output, mixed)

    def end(self, x):
        names = self.names
        x = self.norm(names.last_norm, x.mean(1) if names.token is None else x[:, 0])
        if names.projection is not None:
            projection = self.weights[names.projection]
            x = x @ (projection.T if names.projection.endswith(".weight") else projection)
            if names.head is not None:
                x = x / x.norm(dim=-1, keepdim=True)
        return x if names.head is None else self.linear(names.head, x)

    def forward(self, pixels):
        names = self.names
        x = self.embed(pixels)
        if names.first_norm is not None and f"{names.first_norm}.weight" in self.weights:
            x = self.norm(names.first_norm, x)
        index = 0
        while f"{names.layer.format(index)}{names.norms[0]}.weight" in self.weights:
            layer = names.layer.format(index)
            x = x + self.attend(layer, self.norm(layer + names.norms[0], x))
            inner = self.linear(layer + names.feed_forward[0], self.norm(layer + names.norms[1], x))
            x = x + self.linear(layer + names.feed_forward[1], self.activation(inner))
            index += 1
        return self.end(x)
