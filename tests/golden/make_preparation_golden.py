#!/usr/bin/env python3
"""Writes tests/golden/preparations: descriptions of images as libraries store them, and what the
libraries' own transforms make of small images by them.

usage: make_preparation_golden.py

Every case is a folder with preprocessor_config.json (Hugging Face), config.json (timm),
open_clip_config.json (open_clip) or none of them (torchvision: the preset imagenet), and
expected.safetensors. Its tensors "exact/FILE" and "near/FILE", F32 [size, size, 3], are the network's
input for tests/golden/images/FILE. Transforms of PIL images are exact up to rounding; those that
resize tensors, Hugging Face's default, are within one of 255 levels.

Made with the versions in preparations/versions.json.
"""

import importlib.metadata
import json
import pathlib
import shutil

import numpy as np
import safetensors.numpy
import torchvision
import transformers
from PIL import Image
from timm.data import create_transform, resolve_data_config
from torchvision.transforms._presets import ImageClassification
from transformers.models.bit.image_processing_pil_bit import BitImageProcessorPil
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.convnext.image_processing_pil_convnext import ConvNextImageProcessorPil
from transformers.models.deit.image_processing_pil_deit import DeiTImageProcessorPil
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

import open_clip.transform

HERE = pathlib.Path(__file__).resolve().parent
IMAGES = HERE / "images"
OUT = HERE / "preparations"
FILES = ["rgb-8.png", "rgb-profile.png", "interlaced-rgb.png"]
MODES = ["rgba-8.png", "grey-alpha-8.png", "palette-8.png"]
PIL_CLASSES = {"ViT": ViTImageProcessorPil, "CLIP": CLIPImageProcessorPil,
               "Bit": BitImageProcessorPil, "DeiT": DeiTImageProcessorPil,
               "ConvNext": ConvNextImageProcessorPil}


def channels_last(tensor):
    values = np.asarray(tensor, dtype=np.float32)
    return np.ascontiguousarray(values.transpose(1, 2, 0))


def write(case, name, document, tensors):
    folder = OUT / case
    folder.mkdir(parents=True)
    if document is not None:
        (folder / name).write_text(json.dumps(document, indent=1) + "\n")
    safetensors.numpy.save_file(tensors, folder / "expected.safetensors")


def plain(picture):
    """In RGB, without the transparent colour, which would be painted white."""
    return Image.fromarray(np.asarray(picture.convert("RGB")))


def prepare(transform, files=FILES, to_rgb=True):
    made = {}
    for file in files:
        with Image.open(IMAGES / file) as picture:
            made[file] = channels_last(transform(plain(picture) if to_rgb else picture))
    return made


def huggingface(case, family, old_name=False, tensors=True, **options):
    """`tensors`: also by the class that resizes tensors."""
    name = "feature_extractor_type" if old_name else "image_processor_type"
    document = {name: family + ("FeatureExtractor" if old_name else "ImageProcessor"), **options}
    found = {}
    classes = {"exact": PIL_CLASSES[family]}
    if tensors:
        classes["near"] = getattr(transformers, family + "ImageProcessor")
    for kind, cls in classes.items():
        processor = cls.from_dict(dict(document))
        for file, values in prepare(
                lambda p: processor(p, return_tensors="np")["pixel_values"][0]).items():
            found[f"{kind}/{file}"] = values
    write(case, "preprocessor_config.json", document, found)


def timm(case, old_form=False, **cfg):
    document = {"architecture": "vit_tiny_patch16_224", "num_classes": 10}
    document = {**document, **cfg} if old_form else {**document, "pretrained_cfg": cfg}
    transform = create_transform(**resolve_data_config(pretrained_cfg=cfg))
    write(case, "config.json", document,
          {f"exact/{f}": v for f, v in prepare(transform).items()})


def clip(case, size, **cfg):
    document = {"model_cfg": {"embed_dim": 20, "vision_cfg": {"image_size": size}},
                "preprocess_cfg": cfg}
    transform = open_clip.transform.image_transform_v2(
        open_clip.transform.PreprocessCfg(size=size, **cfg), is_train=False)
    write(case, "open_clip_config.json", document,
          {f"exact/{f}": v for f, v in prepare(transform, FILES + MODES, to_rgb=False).items()})


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    half = [0.5, 0.5, 0.5]
    tens = [0.1, 0.2, 0.3]
    huggingface("hf-vit", "ViT", size={"height": 12, "width": 12})
    huggingface("hf-vit-old", "ViT", old_name=True, size=12, resample=3, image_mean=tens,
                image_std=[0.4, 0.5, 0.6], do_normalize=True, do_resize=True)
    for number, name in ((0, "nearest"), (1, "lanczos"), (4, "box"), (5, "hamming")):
        huggingface("hf-vit-" + name, "ViT", tensors=False, size={"height": 11, "width": 11},
                    resample=number)
    huggingface("hf-vit-bytes", "ViT", size={"height": 30, "width": 30}, do_rescale=False)
    huggingface("hf-vit-plain", "ViT", size={"height": 12, "width": 12}, do_normalize=False,
                rescale_factor=0.0078125)
    huggingface("hf-clip", "CLIP", size={"shortest_edge": 15}, crop_size={"height": 12, "width": 12})
    huggingface("hf-clip-old", "CLIP", old_name=True, size=12, crop_size=12, resample=2)
    huggingface("hf-clip-odd", "CLIP", size={"shortest_edge": 14}, crop_size={"height": 11, "width": 11})
    huggingface("hf-bit", "Bit", size={"shortest_edge": 18}, crop_size={"height": 13, "width": 13})
    huggingface("hf-deit", "DeiT", size={"height": 16, "width": 16},
                crop_size={"height": 11, "width": 11}, resample=3)
    huggingface("hf-convnext", "ConvNext", size={"shortest_edge": 12}, crop_pct=0.875, resample=3)
    timm("timm-center", input_size=[3, 12, 12], crop_pct=0.9, interpolation="bicubic",
         mean=half, std=half)
    timm("timm-default", input_size=[3, 16, 16])
    timm("timm-squash", input_size=[3, 12, 12], crop_pct=0.8, interpolation="bilinear",
         crop_mode="squash", mean=tens, std=[0.4, 0.5, 0.6])
    timm("timm-whole", input_size=[3, 13, 13], crop_pct=1.0, interpolation="nearest")
    timm("timm-lanczos", input_size=[3, 12, 12], crop_pct=0.95, interpolation="lanczos")
    timm("timm-old", old_form=True, input_size=[3, 12, 12], crop_pct=0.75,
         interpolation="bicubic", mean=half, std=half)
    clip("open-clip", 12)
    clip("open-clip-squash", 13, mean=half, std=half, interpolation="bilinear",
         resize_mode="squash")
    write("torchvision", "", None,
          {f"exact/{f}": v for f, v in
           prepare(ImageClassification(crop_size=12, resize_size=12 * 256 // 224)).items()})
    versions = {p: importlib.metadata.version(p)
                for p in ("pillow", "torch", "torchvision", "transformers", "timm",
                          "open_clip_torch")}
    (OUT / "versions.json").write_text(json.dumps(versions, indent=1) + "\n")


if __name__ == "__main__":
    main()
