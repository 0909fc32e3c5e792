#!/usr/bin/env python3
"""Trains the demonstration CNN and ViT on make_images.py's images, draws the sets to calibrate and
to score on, and writes what torch scores on the latter.

The CNN is a ResNet of basic blocks for 32 x 32 images in torchvision's names, a torch file; the
ViT, a Hugging Face directory, learns from the CNN. Each training image is drawn afresh and seen
once. Needs torch, numpy, Pillow and safetensors; two CPU threads, about 20 minutes the CNN and 35
the ViT.

usage: train_vision_demo.py [--parts images cnn vit score] [--output demo/vision]
"""

import argparse
import json
import math
import pathlib
import shutil
import time

import numpy
import safetensors.torch
import torch
from PIL import Image
from torch.nn import functional

import make_images

TRAIN_SEED, CALIBRATION_SEED, TEST_SEED, CHECK_SEED = 1, 2, 3, 4
CALIBRATION_IMAGES, TEST_IMAGES, CHECK_IMAGES = 128, 1000, 2000
MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
# warm: share of the images over which the rate rises; plain: over which images without clutter and
# grain grow rare, since a ViT is slow to find the first object among them.
TRAINING = {"cnn": {"count": 450_000, "warm": 0.08, "plain": 0.0},
            "vit": {"count": 1_000_000, "warm": 0.0125, "plain": 0.25}}
TEMPERATURE = 2.0
BATCH = 125  # a quarter of a block of drawn images
WIDTHS, BLOCKS = (24, 48, 96), 2
CONFIG = {
    "architectures": ["ViTForImageClassification"],
    "model_type": "vit",
    "image_size": make_images.SIDE,
    "patch_size": 4,
    "num_channels": 3,
    "hidden_size": 96,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "intermediate_size": 384,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "initializer_range": 0.02,
    "layer_norm_eps": 1e-12,
    "qkv_bias": True,
    "id2label": {str(index): name for index, name in enumerate(make_images.CLASSES)},
    "label2id": {name: index for index, name in enumerate(make_images.CLASSES)},
    "torch_dtype": "float16",
}


# ---- the CNN, with the tensor names of torchvision

class BasicBlock(torch.nn.Module):
    def __init__(self, channels_in, channels, stride):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(channels)
        self.conv2 = torch.nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = torch.nn.BatchNorm2d(channels)
        self.downsample = None
        if stride != 1 or channels_in != channels:
            self.downsample = torch.nn.Sequential(
                torch.nn.Conv2d(channels_in, channels, 1, stride, bias=False),
                torch.nn.BatchNorm2d(channels))

    def forward(self, x):
        inner = functional.relu(self.bn1(self.conv1(x)))
        straight = x if self.downsample is None else self.downsample(x)
        return functional.relu(self.bn2(self.conv2(inner)) + straight)


class Cnn(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(3, WIDTHS[0], 3, 1, 1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(WIDTHS[0])
        channels = WIDTHS[0]
        for stage, width in enumerate(WIDTHS):
            first = BasicBlock(channels, width, 1 if stage == 0 else 2)
            others = (BasicBlock(width, width, 1) for _ in range(BLOCKS - 1))
            self.add_module(f"layer{stage + 1}", torch.nn.Sequential(first, *others))
            channels = width
        self.fc = torch.nn.Linear(channels, len(make_images.CLASSES))
        for module in self.modules():
            if isinstance(module, torch.nn.Conv2d):
                torch.nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        return self.features(x)[1]

    def features(self, x):
        """What each stage gives, and the logits."""
        x = functional.relu(self.bn1(self.conv1(x)))
        stages = []
        for stage in range(len(WIDTHS)):
            x = getattr(self, f"layer{stage + 1}")(x)
            stages.append(x)
        return stages, self.fc(x.mean((2, 3)))


# ---- the ViT, with the tensor names of Hugging Face

def place_waves():
    """Where to start the position embeddings, [1, tokens, hidden]: sines and cosines of row and
    column, with which so small a ViT begins to learn sooner; 0 for the class token."""
    side = CONFIG["image_size"] // CONFIG["patch_size"]
    count = CONFIG["hidden_size"] // 4
    angles = math.pi / (count + 1) * torch.arange(side)[:, None] * (torch.arange(count) + 1)
    waves = torch.cat([angles.sin(), angles.cos()], 1)
    grid = torch.cat([waves[:, None].expand(-1, side, -1), waves[None].expand(side, -1, -1)], 2)
    return torch.cat([torch.zeros(1, 4 * count), grid.flatten(0, 1)])[None]


def named(**modules):
    """A module that only names others."""
    parent = torch.nn.Module()
    for name, module in modules.items():
        parent.add_module(name, module)
    return parent


class VitLayer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        hidden, inner = CONFIG["hidden_size"], CONFIG["intermediate_size"]
        self.attention = named(
            attention=named(**{name: torch.nn.Linear(hidden, hidden)
                               for name in ("query", "key", "value")}),
            output=named(dense=torch.nn.Linear(hidden, hidden)))
        self.intermediate = named(dense=torch.nn.Linear(hidden, inner))
        self.output = named(dense=torch.nn.Linear(inner, hidden))
        self.layernorm_before = torch.nn.LayerNorm(hidden, CONFIG["layer_norm_eps"])
        self.layernorm_after = torch.nn.LayerNorm(hidden, CONFIG["layer_norm_eps"])

    def attend(self, x):
        shape = (*x.shape[:2], CONFIG["num_attention_heads"], -1)
        project = self.attention.attention
        q, k, v = (linear(x).view(shape).transpose(1, 2)
                   for linear in (project.query, project.key, project.value))
        scores = (q * q.shape[-1]**-0.5) @ k.transpose(2, 3)
        mixed = scores.softmax(-1).to(v.dtype) @ v
        return self.attention.output.dense(mixed.transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + self.attend(self.layernorm_before(x))
        inner = functional.gelu(self.intermediate.dense(self.layernorm_after(x)))
        return x + self.output.dense(inner)


class Vit(torch.nn.Module):
    def __init__(self):
        super().__init__()
        hidden, patch = CONFIG["hidden_size"], CONFIG["patch_size"]
        embeddings = named(patch_embeddings=named(
            projection=torch.nn.Conv2d(CONFIG["num_channels"], hidden, patch, patch)))
        embeddings.cls_token = torch.nn.Parameter(torch.zeros(1, 1, hidden))
        embeddings.position_embeddings = torch.nn.Parameter(place_waves())
        self.vit = named(
            embeddings=embeddings,
            encoder=named(layer=torch.nn.ModuleList(
                VitLayer() for _ in range(CONFIG["num_hidden_layers"]))),
            layernorm=torch.nn.LayerNorm(hidden, CONFIG["layer_norm_eps"]))
        self.classifier = torch.nn.Linear(hidden, len(make_images.CLASSES))
        self.initialise()

    def initialise(self):
        for module in self.modules():
            if isinstance(module, torch.nn.Linear):
                torch.nn.init.xavier_uniform_(module.weight)
                torch.nn.init.zeros_(module.bias)
        torch.nn.init.normal_(self.vit.embeddings.cls_token, std=CONFIG["initializer_range"])
        # Attention begins on what is alike and near (A. Trockman, J. Z. Kolter 2023, simplified).
        for layer in self.vit.encoder.layer:
            attention = layer.attention.attention
            attention.key.weight.data.copy_(attention.query.weight)
            layer.attention.output.dense.weight.data.mul_(0.3)
            layer.output.dense.weight.data.mul_(0.3)

    def forward(self, x):
        return self.features(x)[1]

    def features(self, x):
        """What each layer gives, and the logits."""
        embeddings = self.vit.embeddings
        patches = embeddings.patch_embeddings.projection(x).flatten(2).transpose(1, 2)
        x = torch.cat([embeddings.cls_token.expand(len(x), -1, -1), patches], 1)
        x = x + embeddings.position_embeddings
        layers = []
        for layer in self.vit.encoder.layer:
            x = layer(x)
            layers.append(x)
        return layers, self.classifier(self.vit.layernorm(x)[:, 0])


# ---- images

def normalise(images):
    """Network input [count, 3, side, side] of 8-bit images [count, side, side, 3]."""
    x = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255
    return (x - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(DEVIATION).view(3, 1, 1)


def batches(count, plain, random):
    """Pairs of input and classes, `count` images in all, none of them twice."""
    blocks = count // make_images.BLOCK
    for block in range(blocks):
        alone = block < plain * blocks and block < plain * blocks * random.uniform()
        images = make_images.through_jpeg(make_images.make_block(TRAIN_SEED, block, alone))
        order = random.permutation(make_images.BLOCK)
        x = normalise(images[order]).to(memory_format=torch.channels_last)
        classes = torch.from_numpy(order % len(make_images.CLASSES))
        yield from zip(x.split(BATCH), classes.split(BATCH))


def read_set(folder):
    """Images and classes of a folder with one subfolder per class."""
    files = [(path, index) for index, name in enumerate(make_images.CLASSES)
             for path in sorted((folder / name).iterdir())]
    images = numpy.stack([numpy.asarray(Image.open(path).convert("RGB")) for path, _ in files])
    return images, numpy.array([index for _, index in files])


def write_sets(folder):
    for name, seed, count, unlabelled in (
            ("calibration", CALIBRATION_SEED, CALIBRATION_IMAGES, True),
            ("test", TEST_SEED, TEST_IMAGES, False)):
        shutil.rmtree(folder / name, ignore_errors=True)
        make_images.write_images(folder / name, seed, count, "jpeg", unlabelled)


# ---- training

def evaluate(model, images, classes):
    """Share of images whose class has the greatest logit."""
    model.eval()
    with torch.no_grad():
        hits = [(model(normalise(images[i:i + BATCH])).argmax(1).numpy() == classes[i:i + BATCH])
                for i in range(0, len(images), BATCH)]
    model.train()
    return float(numpy.concatenate(hits).mean())


def rate(step, steps, warm):
    """Share of the peak rate: a line up over `warm` steps, then half a cosine down."""
    if step < warm:
        return (step + 1) / warm
    return 0.5 * (1 + math.cos(math.pi * (step - warm) / (steps - warm)))


class Muon(torch.optim.Optimizer):
    """Momentum whose matrices are brought near an orthogonal one before each step (K. Jordan et al.
    2024: five Newton-Schulz steps of degree 5); a ViT this small learns far sooner by it."""

    def __init__(self, matrices, decay, momentum=0.95):
        super().__init__(matrices, {"lr": 0.0, "decay": decay, "momentum": momentum})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for matrix in group["params"]:
                mean = self.state[matrix].setdefault("mean", torch.zeros_like(matrix))
                mean.lerp_(matrix.grad, 1 - group["momentum"])
                update = near_orthogonal(matrix.grad.lerp(mean, group["momentum"]))
                matrix.mul_(1 - group["lr"] * group["decay"])
                matrix.sub_(update * (group["lr"] * max(1, len(matrix) / len(matrix.T))**0.5))


def near_orthogonal(matrix):
    x = matrix / (matrix.norm() + 1e-7)
    x = x.T if len(matrix) > len(matrix.T) else x
    for _ in range(5):
        square = x @ x.T
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    return x.T if len(matrix) > len(matrix.T) else x


def sgd(model):
    """Optimizers with their peak rates."""
    return [(0.15, torch.optim.SGD(model.parameters(), momentum=0.9, nesterov=True,
                                   weight_decay=5e-4))]


def muon(model, teacher):
    matrices = [p for p in model.vit.encoder.parameters() if p.dim() == 2]
    others = [p for p in (*model.parameters(), *teacher.parameters())
              if all(p is not matrix for matrix in matrices)]
    return [(0.02, Muon(matrices, 0.02)),
            (2e-3, torch.optim.AdamW(others, betas=(0.9, 0.95), weight_decay=0.0))]


class Teacher(torch.nn.Module):
    """What a trained CNN adds to the loss of a ViT: its logits (G. Hinton et al. 2015), and at
    every patch its features (A. Romero et al. 2015), those of the second stage in the middle and
    those of the third at the end. Labels alone teach so small a ViT little in so few steps."""

    def __init__(self, cnn):
        super().__init__()
        # in a list, so that its parameters are not this module's
        self.cnn = [cnn.eval().to(memory_format=torch.channels_last)]
        hidden, sizes = CONFIG["hidden_size"], (4 * WIDTHS[1], WIDTHS[2])
        self.readers = torch.nn.ModuleList(
            torch.nn.Sequential(torch.nn.LayerNorm(hidden), torch.nn.Linear(hidden, size))
            for size in sizes)
        self.scales = None

    def aims(self, x):
        """Logits, and features [images, patches, channels] of mean 0 and deviation 1."""
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            stages, logits = self.cnn[0].features(x)
        features = [stage.float().flatten(2).transpose(1, 2)
                    for stage in (functional.pixel_unshuffle(stages[1], 2), stages[2])]
        if self.scales is None:
            self.scales = [(f.mean((0, 1)), f.std((0, 1)) + 1e-3) for f in features]
        return logits.float(), [(f - mean) / deviation
                                for f, (mean, deviation) in zip(features, self.scales)]

    def forward(self, x, layers, logits):
        aim, features = self.aims(x)
        middle = len(layers) // 2 - 1
        read = [reader(layer[:, 1:]).float()
                for reader, layer in zip(self.readers, (layers[middle], layers[-1]))]
        apart = functional.kl_div((logits / TEMPERATURE).log_softmax(1),
                                  (aim / TEMPERATURE).softmax(1), reduction="batchmean")
        return (TEMPERATURE**2 * apart,
                sum(functional.mse_loss(r, f) for r, f in zip(read, features)))


def loss_of(model, teacher, x, classes):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        layers, logits = model.features(x)
        loss = functional.cross_entropy(logits.float(), classes)
        if teacher is None:
            return loss
        logits_apart, features_apart = teacher(x, layers, logits.float())
    return 0.3 * loss + 0.7 * logits_apart + 3.0 * features_apart


def train(model, teacher, optimizers, count, warm, plain):
    model = model.to(memory_format=torch.channels_last)
    steps, began, recent = count // BATCH, time.time(), []
    parameters = sum(p.numel() for p in model.parameters())
    print(f"{parameters} parameters, {steps} steps, {count} images", flush=True)
    check = make_images.make_images(CHECK_SEED, CHECK_IMAGES)
    check = make_images.through_jpeg(check[0]), check[1]
    for step, (x, classes) in enumerate(batches(count, plain, numpy.random.RandomState(5))):
        loss = loss_of(model, teacher, x, classes)
        for _, optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        for peak, optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = peak * rate(step, steps, warm * steps)
            optimizer.step()
        recent.append(loss.item())
        if (step + 1) % 100 == 0 or step + 1 == steps:
            note = f" accuracy {evaluate(model, *check):.4f}" if (step + 1) % 500 == 0 else ""
            print(f"step {step + 1} loss {numpy.mean(recent):.4f}{note} "
                  f"{time.time() - began:.0f} s", flush=True)
            recent = []


def train_cnn(folder):
    model = Cnn()
    train(model, None, sgd(model), **TRAINING["cnn"])
    write_cnn(model, folder)


def train_vit(folder):
    model, teacher = Vit(), Teacher(read_cnn(folder))
    train(model, teacher, muon(model, teacher), **TRAINING["vit"])
    write_vit(model, folder)


# ---- files

def write_json(path, value):
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def write_cnn(model, folder):
    folder.mkdir(parents=True, exist_ok=True)
    state = {name: value.clone(memory_format=torch.contiguous_format)
             for name, value in model.state_dict().items()}
    torch.save(state, folder / "cnn.pth")


def write_vit(model, folder):
    folder = folder / "vit"
    folder.mkdir(parents=True, exist_ok=True)
    state = {name: value.to(torch.float16).contiguous()
             for name, value in model.state_dict().items()}
    safetensors.torch.save_file(state, str(folder / "model.safetensors"),
                                metadata={"format": "pt"})
    write_json(folder / "config.json", CONFIG)


def read_cnn(folder):
    model = Cnn()
    model.load_state_dict(torch.load(folder / "cnn.pth", map_location="cpu"))
    return model


def read_vit(folder):
    model = Vit()
    model.load_state_dict(safetensors.torch.load_file(str(folder / "vit" / "model.safetensors")))
    return model


# ---- accuracy by torch, uncut and cut

def silence(first, ratio, others=()):
    """Sets the output units of `first` with the least sums of |weight| to zero, and the same of
    `others`."""
    scores = first.weight.detach().abs().flatten(1).sum(1)
    cut = scores.argsort()[:int(ratio * len(scores))]
    with torch.no_grad():
        for module in (first, *others):
            module.weight[cut] = 0
            if module.bias is not None:
                module.bias[cut] = 0


def cut_cnn(model, ratio):
    for module in model.modules():
        if isinstance(module, BasicBlock):
            silence(module.conv1, ratio, [module.bn1])


def cut_vit(model, ratio):
    for layer in model.vit.encoder.layer:
        silence(layer.intermediate.dense, ratio)


def score(folder):
    """Writes expected.json; prints what is left after the least inner units are set to zero."""
    images, classes = read_set(folder / "test")
    expected = {}
    for name, read, cut in (("cnn", read_cnn, cut_cnn), ("vit", read_vit, cut_vit)):
        expected[name] = {"top1": round(evaluate(read(folder), images, classes), 6),
                          "images": len(images)}
        print(name, expected[name], flush=True)
        for ratio in (0.2, 0.3, 0.5, 0.7):
            model = read(folder)
            cut(model, ratio)
            print(f"{name} cut by {ratio}: {evaluate(model, images, classes):.4f}", flush=True)
    write_json(folder / "expected.json", expected)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = ("images", "cnn", "vit", "score")
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts)
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("demo/vision"))
    options = parser.parse_args()
    torch.set_num_threads(2)
    if "images" in options.parts:
        write_sets(options.output)
    for part, train_part in (("cnn", train_cnn), ("vit", train_vit)):
        if part in options.parts:
            torch.manual_seed(0)
            train_part(options.output)
    if "score" in options.parts:
        score(options.output)


if __name__ == "__main__":
    main()
