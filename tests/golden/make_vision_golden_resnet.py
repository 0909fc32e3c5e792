#!/usr/bin/env python3
"""Expected logits of residual networks for test_vision_resnet.c, from torch, and directories of
Hugging Face's as save_pretrained writes them.

Needs torch 1.13, torchvision 0.14 and transformers 4.37 (versions are stored in the output).
Weights of random networks are a formula of the tensor's name and the element's index, which
tests/unit/arch/lab_network.c computes too, so only logits are stored. The pretrained networks are
read from ../shared/data; without it their logits are kept as they were.

    make_vision_golden_resnet.py                writes vision/resnet.safetensors beside this script
    make_vision_golden_resnet.py directories    writes vision/hf-resnet-*: those there are of
                                                transformers 5.24
"""
import os
import pathlib
import sys

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy
import torch
import torchvision
import transformers
from torch import nn

from golden_file import read_safetensors, write_safetensors
from plain_resnet import (akamaster, cifar_resnet18, fill, narrowed_resnet50, pixels,
                          pre_activation)

HERE = pathlib.Path(__file__).resolve().parent
DATA = pathlib.Path(os.environ.get("GRAIL_SHARED_DATA", HERE.parents[2] / "shared" / "data"))
OUTPUT = HERE / "vision" / "resnet.safetensors"


# -- networks ------------------------------------------------------------------------------------

class HuggingFace(nn.Module):
    """The class itself, giving logits; its tensors keep their names."""

    def __init__(self, **options):
        super().__init__()
        options = {"embedding_size": 8, "depths": [1, 2, 1], "num_labels": 5, **options}
        config = transformers.ResNetConfig(**options)
        self.model = transformers.ResNetForImageClassification(config)

    def state_dict(self, *arguments, **options):
        return self.model.state_dict(*arguments, **options)

    def load_state_dict(self, state, strict):
        return self.model.load_state_dict(state, strict=strict)

    def forward(self, x):
        return self.model(x).logits


# -- cases ---------------------------------------------------------------------------------------

RANDOM = {  # name: (network, images, side)
    "torchvision_resnet18": (torchvision.models.resnet18, 2, 64),
    "torchvision_resnet50": (torchvision.models.resnet50, 2, 64),
    "narrowed_resnet50": (narrowed_resnet50, 3, 71),
    "akamaster_resnet14": (lambda: akamaster(2), 3, 32),
    "pre_activation_resnet18": (lambda: pre_activation(16), 3, 32),
    "hugging_face_basic": (
        lambda: HuggingFace(layer_type="basic", hidden_sizes=[12, 20, 28],
                            downsample_in_first_stage=True, hidden_act="gelu"), 3, 64),
    "hugging_face_bottleneck": (
        lambda: HuggingFace(layer_type="bottleneck", hidden_sizes=[12, 20, 28],
                            downsample_in_bottleneck=True), 3, 64),
}

DIRECTORIES = {
    "hf-resnet-basic": {"layer_type": "basic", "embedding_size": 8, "hidden_sizes": [8, 16],
                        "depths": [1, 2], "num_labels": 10},
    "hf-resnet-bottleneck": {"layer_type": "bottleneck", "embedding_size": 8,
                             "hidden_sizes": [32, 64], "depths": [2, 1],
                             "downsample_in_bottleneck": True, "num_labels": 10},
}
SIDE = 40  # of the images in the directories

PRETRAINED = {  # name: (network, file of the shared data)
    "resnet18_cifar10": (cifar_resnet18, "resnet18-cifar10/resnet18_cifar10.pth"),
}


def logits(model, images, side):
    model.eval()
    with torch.no_grad():
        return model(pixels(images, side)).numpy()


def load_pretrained(model, path):
    state = torch.load(path, map_location="cpu")
    state = state.get("state_dict", state)
    model.load_state_dict({name.removeprefix("module."): value for name, value in state.items()})
    return model


def make_directories():
    for name, options in DIRECTORIES.items():
        network = fill(HuggingFace(**options))
        network.model.save_pretrained(HERE / "vision" / name)
        transformers.ConvNextImageProcessor(
            size={"shortest_edge": SIDE}, crop_pct=1.0).save_pretrained(HERE / "vision" / name)
        x = pixels(2, SIDE).permute(0, 2, 3, 1).contiguous().numpy()
        write_safetensors(HERE / "vision" / name / "golden.safetensors",
                          {"pixels": x, "logits": logits(network, 2, SIDE)},
                          {"transformers": transformers.__version__})


def main():
    torch.set_num_threads(2)
    tensors = {name: value for name, value in read_safetensors(OUTPUT).items()
               if name in PRETRAINED}
    for name, (network, images, side) in RANDOM.items():
        tensors[name] = logits(fill(network()), images, side)
    for name, (network, file) in PRETRAINED.items():
        if (DATA / file).exists():
            tensors[name] = logits(load_pretrained(network(), DATA / file), 4, 32)
    for name, value in tensors.items():
        print(f"{name:28} {str(value.shape):12} largest {numpy.abs(value).max():.3f}")
    versions = {"torch": torch.__version__, "torchvision": torchvision.__version__,
                "transformers": transformers.__version__}
    write_safetensors(OUTPUT, tensors, versions)


if __name__ == "__main__":
    make_directories() if sys.argv[1:] == ["directories"] else main()
