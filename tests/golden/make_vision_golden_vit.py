#!/usr/bin/env python3
"""Tiny random vision transformers and their reference outputs, for the forward-pass tests.

Writes vision/<name>/ beside this script: the weights as the library stores them (model.safetensors
or model.pth, with config.json where the library has one), and golden.safetensors with "pixels"
(F32 [images, height, width, 3]) and "logits" (F32 [images, outputs]) as that library computes them.

Needs torch, torchvision, timm 0.9, transformers 4.37, vit-pytorch 0.40 and open_clip 2.20; the
versions used are in vision/versions-vit.json.
"""

import collections
import importlib.metadata
import json
import pathlib

import open_clip
import safetensors.torch
import timm
import torch
import torchvision
import transformers
import vit_pytorch.simple_vit

HERE = pathlib.Path(__file__).resolve().parent / "vision"
IMAGES = 3
CLASSES = 7
WIDTH, HEADS, MLP, LAYERS = 32, 2, 48, 2  # heads of 16
SIDE, PATCH = 24, 8  # 9 patches
EPSILON = 0.01  # where it can be chosen: large, so that a reader who misses it is seen


def seeded(model, seed):
    """All parameters drawn anew: defaults such as zero biases and unit norms hide errors."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            is_scale = parameter.dim() == 1 and name.endswith("weight")
            parameter.copy_(1 + 0.2 * noise if is_scale else 0.25 * noise)
    return model.eval()


def pixels(side, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn((IMAGES, 3, side, side), generator=generator)


def save(name, state, x, logits, config=None, torch_file=False):
    directory = HERE / name
    directory.mkdir(parents=True, exist_ok=True)
    state = collections.OrderedDict((key, value.contiguous()) for key, value in state.items())
    if torch_file:
        torch.save(state, directory / "model.pth")
    else:
        safetensors.torch.save_file(state, str(directory / "model.safetensors"))
    if config is not None:
        (directory / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    safetensors.torch.save_file(
        {"pixels": x.permute(0, 2, 3, 1).contiguous(), "logits": logits.float().contiguous()},
        str(directory / "golden.safetensors"))


def make_timm():
    model = seeded(timm.models.VisionTransformer(
        img_size=SIDE, patch_size=PATCH, num_classes=CLASSES, embed_dim=WIDTH, depth=LAYERS,
        num_heads=HEADS, mlp_ratio=MLP / WIDTH), 1)
    x = pixels(SIDE, 11)
    save("timm-vit", model.state_dict(), x, model(x))
    # what a classifier of timm's hub stores beside its weights: no model_type
    model = seeded(timm.models.VisionTransformer(
        img_size=SIDE, patch_size=PATCH, num_classes=CLASSES, embed_dim=64, depth=1, num_heads=1,
        mlp_ratio=1, qkv_bias=False, pre_norm=True), 2)
    config = {"architecture": "vit_tiny_patch8_24", "num_classes": CLASSES, "num_features": 64,
              "pretrained_cfg": {"input_size": [3, SIDE, SIDE]}}
    save("timm-vit-hub", model.state_dict(), x, model(x), config)


def make_torchvision():
    model = seeded(torchvision.models.VisionTransformer(
        image_size=SIDE, patch_size=PATCH, num_layers=LAYERS, num_heads=HEADS, hidden_dim=WIDTH,
        mlp_dim=MLP, num_classes=CLASSES), 3)
    x = pixels(SIDE, 12)
    save("torchvision-vit", model.state_dict(), x, model(x))


def make_hf_vit():
    config = transformers.ViTConfig(
        hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        intermediate_size=MLP, image_size=SIDE, patch_size=PATCH, num_labels=CLASSES,
        layer_norm_eps=EPSILON)
    config.architectures = ["ViTForImageClassification"]
    model = seeded(transformers.ViTForImageClassification(config), 4)
    x = pixels(SIDE, 13)
    save("hf-vit", model.state_dict(), x, model(x).logits, json.loads(config.to_json_string()))


def make_simple_vit():
    x = pixels(32, 14)
    for name, depth, torch_file in (("simple-vit", LAYERS, False), ("simple-vit-pth", 1, True)):
        model = seeded(vit_pytorch.simple_vit.SimpleViT(
            image_size=32, patch_size=8, num_classes=CLASSES, dim=WIDTH, depth=depth, heads=2,
            mlp_dim=MLP), 5)  # dim_head 64
        save(name, model.state_dict(), x, model(x), torch_file=torch_file)


def open_clip_model(quick_gelu, seed):
    vision = {"image_size": SIDE, "layers": LAYERS, "width": WIDTH, "head_width": WIDTH // HEADS,
              "patch_size": PATCH, "mlp_ratio": MLP / WIDTH}
    text = {"context_length": 6, "vocab_size": 20, "width": 16, "heads": 1, "layers": 1}
    return seeded(open_clip.CLIP(20, vision, text, quick_gelu=quick_gelu), seed)


def make_open_clip():
    x = pixels(SIDE, 15)
    for name, quick_gelu in (("open-clip", False), ("open-clip-quickgelu", True)):
        model = open_clip_model(quick_gelu, 6)
        save(name, model.state_dict(), x, model.visual(x))


class ModelWrapper(torch.nn.Module):
    """The wrapper of model soups: features of unit length, then a linear head."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        del self.model.transformer
        self.classification_head = torch.nn.Linear(20, CLASSES)

    def forward(self, x):
        features = self.model.visual(x)
        return self.classification_head(features / features.norm(dim=-1, keepdim=True))


def make_model_soup():
    model = seeded(ModelWrapper(open_clip_model(True, 7)), 7)
    x = pixels(SIDE, 16)
    save("model-soup", model.state_dict(), x, model(x))


def make_hf_clip():
    vision = dict(hidden_size=WIDTH, intermediate_size=MLP, num_hidden_layers=LAYERS,
                  num_attention_heads=HEADS, image_size=SIDE, patch_size=PATCH, projection_dim=20,
                  layer_norm_eps=EPSILON)
    text = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=1,
                vocab_size=20, max_position_embeddings=6, projection_dim=20, bos_token_id=0,
                eos_token_id=1)
    x = pixels(SIDE, 17)
    config = transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=20)
    model = seeded(transformers.CLIPModel(config), 8)
    save("hf-clip", model.state_dict(), x, model.get_image_features(pixel_values=x),
         json.loads(config.to_json_string()))
    config = transformers.CLIPVisionConfig(hidden_act="gelu", **vision)
    model = seeded(transformers.CLIPVisionModelWithProjection(config), 9)
    save("hf-clip-vision", model.state_dict(), x, model(pixel_values=x).image_embeds,
         json.loads(config.to_json_string()))


def main():
    torch.set_num_threads(1)
    HERE.mkdir(parents=True, exist_ok=True)
    for make in (make_timm, make_torchvision, make_hf_vit, make_simple_vit, make_open_clip,
                 make_model_soup, make_hf_clip):
        with torch.no_grad():
            make()
    versions = {"torch": torch.__version__, "timm": timm.__version__,
                "torchvision": torchvision.__version__, "transformers": transformers.__version__}
    for package in ("vit-pytorch", "open_clip_torch"):
        versions[package] = importlib.metadata.version(package)
    (HERE / "versions-vit.json").write_text(json.dumps(versions, indent=1) + "\n")


if __name__ == "__main__":
    main()
