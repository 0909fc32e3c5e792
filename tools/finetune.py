#!/usr/bin/env python3
"""Trains a narrowed or dense residual network for a few epochs with labels, the baseline that
repairs without labels are compared with.

The GRAIL paper compares with "models fine-tuned for 5 epochs" and says no more about it. Cropping,
flips and batches of 128 are those of its authors' code. That trains with Adam at a constant rate of
1e-4 and without weight decay, which `--optimizer adam` does; it also turns images by up to 15 degrees,
which is left out here. The default is chosen here: SGD with momentum 0.9, weight decay 5e-4, and a rate
that falls from 0.01 to 0 by half a cosine.

Reads a torch file, or the directory that grail wrote, of a residual network of basic blocks with a
3 x 3 stem in the names of torchvision ("downsample", "fc") or of the CIFAR collections ("shortcut"
or zero padding, "linear"): ResNet-20 and ResNet-18 for CIFAR, and the demonstration CNN. All widths
come from the tensors. DATA is a directory of CIFAR-10 batches in the binary format, all whose
data_batch_*.bin are trained on; or a folder with one subfolder for each of make_images.py's classes
(demo/vision/test): then training images are drawn.

Prints top-1 accuracy on all test images, before training and after each epoch; the first is what
`grail eval` prints. Needs torch and numpy, and Pillow for folders.

usage: finetune.py CHECKPOINT --data DATA [--output FILE] [--epochs N] [--images N]
                   [--optimizer sgd|adam] [--rate R] [--preset NAME] [--seed N]
"""

import argparse
import json
import math
import pathlib
import sys
import time

import numpy
import torch
from torch.nn import functional

EPOCHS, BATCH, MOMENTUM, DECAY = 5, 128, 0.9, 5e-4
RATES = {"sgd": 0.01, "adam": 1e-4}
PADDING = 4  # pixels that a crop may be off
DRAWN_IMAGES, DRAWN_SEED = 50_000, 6  # no seed of train_vision_demo.py
IMAGE_BYTES = 3 * 32 * 32
PRESETS = {  # as docs/numerics.md has them: mean and deviation
    "cifar": ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
    "cifar-imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "cifar-plain": ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
}


# ---- the network, as wide as its tensors are

def conv(state, name, stride=1):
    out, channels, kernel, _ = state[f"{name}.weight"].shape
    return torch.nn.Conv2d(channels, out, kernel, stride, kernel // 2,
                           bias=f"{name}.bias" in state)


def norm(state, name):
    return torch.nn.BatchNorm2d(len(state[f"{name}.weight"]))


class Block(torch.nn.Module):
    def __init__(self, state, name, stride):
        super().__init__()
        self.conv1 = conv(state, f"{name}.conv1", stride)
        self.bn1 = norm(state, f"{name}.bn1")
        self.conv2 = conv(state, f"{name}.conv2")
        self.bn2 = norm(state, f"{name}.bn2")
        self.stride, self.projection = stride, None
        for projection in ("downsample", "shortcut"):
            if f"{name}.{projection}.0.weight" in state:
                self.projection = projection
                self.add_module(projection, torch.nn.Sequential(
                    conv(state, f"{name}.{projection}.0", stride),
                    norm(state, f"{name}.{projection}.1")))

    def straight(self, x):
        if self.projection is not None:
            return getattr(self, self.projection)(x)
        pad = (self.conv2.out_channels - x.shape[1]) // 2
        return functional.pad(x[:, :, ::self.stride, ::self.stride], (0, 0, 0, 0, pad, pad))

    def forward(self, x):
        inner = functional.relu(self.bn1(self.conv1(x)))
        return functional.relu(self.bn2(self.conv2(inner)) + self.straight(x))


class Network(torch.nn.Module):
    def __init__(self, state):
        super().__init__()
        self.conv1, self.bn1 = conv(state, "conv1"), norm(state, "bn1")
        self.stages, self.pads = 0, False
        while f"layer{self.stages + 1}.0.conv1.weight" in state:
            self.stages += 1
            self.add_module(f"layer{self.stages}", self.make_stage(state, f"layer{self.stages}"))
        self.head = "fc" if "fc.weight" in state else "linear"
        classes, channels = state[f"{self.head}.weight"].shape
        self.add_module(self.head, torch.nn.Linear(channels, classes))
        self.load_state_dict(state)

    def make_stage(self, state, name):
        blocks = []
        while f"{name}.{len(blocks)}.conv1.weight" in state:
            stride = 2 if self.stages > 1 and not blocks else 1
            blocks.append(Block(state, f"{name}.{len(blocks)}", stride))
            self.pads |= stride > 1 and blocks[-1].projection is None
        return torch.nn.Sequential(*blocks)

    def forward(self, x):
        x = functional.relu(self.bn1(self.conv1(x)))
        for stage in range(self.stages):
            x = getattr(self, f"layer{stage + 1}")(x)
        return getattr(self, self.head)(x.mean((2, 3)))


# ---- files

PREFIX = "module."  # of networks that were trained on several GPUs
SUFFIXES = (".pth", ".pt", ".th", ".bin")


def find_file(path):
    """The file itself, or the torch file in a directory that grail wrote."""
    files = [file for file in (path.iterdir() if path.is_dir() else [path])
             if file.suffix in SUFFIXES]
    if len(files) != 1:
        sys.exit(f"{path}: found {len(files)} torch files ({' '.join(SUFFIXES)}), expected one")
    return files[0]


def tensors_of(checkpoint):
    """The dictionary of tensors in what a torch file holds."""
    return checkpoint["state_dict"] if "state_dict" in checkpoint else checkpoint


def load(path):
    checkpoint = torch.load(path, map_location="cpu")
    state = {name.removeprefix(PREFIX): value.float() if value.is_floating_point() else value
             for name, value in tensors_of(checkpoint).items()}
    if state.get("conv1.weight", torch.empty(0)).shape[2:] != (3, 3):
        sys.exit(f"{path}: tensor 'conv1.weight' is not a 3 x 3 convolution; expected a residual "
                 "network for CIFAR")
    try:
        return checkpoint, Network(state)
    except (KeyError, RuntimeError) as error:
        sys.exit(f"{path}: expected a residual network of basic blocks for CIFAR: {error}")


def save(checkpoint, network, path):
    """Keeps names, order and dtypes of the file that was read."""
    trained, tensors = network.state_dict(), tensors_of(checkpoint)
    for name, value in tensors.items():
        new = trained[name.removeprefix(PREFIX)].cpu().to(value.dtype)
        tensors[name] = new.clone(memory_format=torch.contiguous_format)
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(checkpoint, path)


def choose_preset(path, network):
    """What grail.json beside the checkpoint says, else the usual one of such a network."""
    beside = path.parent / "grail.json"
    said = json.loads(beside.read_text()).get("preset") if beside.exists() else None
    if said in PRESETS:
        return said
    return "cifar-imagenet" if network.pads else "cifar"


# ---- images: 8-bit [count, 3, side, side], classes [count]

def read_batches(files):
    files = sorted(files)
    if not files:
        sys.exit("found no CIFAR-10 batches: expected data_batch_1.bin ... and test_batch.bin")
    rows = numpy.concatenate([numpy.fromfile(file, numpy.uint8).reshape(-1, 1 + IMAGE_BYTES)
                              for file in files])
    return rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0].astype(numpy.int64)


def read_folder(folder, classes):
    from PIL import Image
    files = [(file, index) for index, name in enumerate(classes)
             for file in sorted((folder / name).iterdir())]
    images = numpy.stack([numpy.asarray(Image.open(file).convert("RGB")) for file, _ in files])
    return images.transpose(0, 3, 1, 2), numpy.array([index for _, index in files])


def read_data(folder, count):
    """Training and test set; the first has `count` images, None: all."""
    if (folder / "test_batch.bin").exists():
        images, classes = read_batches(folder.glob("data_batch_*.bin"))
        return (images[:count], classes[:count]), read_batches([folder / "test_batch.bin"])
    import make_images
    if not all((folder / name).is_dir() for name in make_images.CLASSES):
        sys.exit(f"{folder}: has neither test_batch.bin nor a subfolder for each class of "
                 "make_images.py")
    images, classes = make_images.make_images(DRAWN_SEED, count or DRAWN_IMAGES)
    images = make_images.through_jpeg(images).transpose(0, 3, 1, 2)
    return (images, classes), read_folder(folder, make_images.CLASSES)


class Scale:
    """8-bit images as the network reads them."""

    def __init__(self, preset, device):
        self.mean, self.deviation = (torch.tensor(values, device=device).view(3, 1, 1)
                                     for values in PRESETS[preset])

    def __call__(self, images):
        x = torch.from_numpy(numpy.ascontiguousarray(images)).to(self.mean.device)
        return ((x.float() / 255 - self.mean) / self.deviation).contiguous(
            memory_format=torch.channels_last)


def vary(images, random):
    """Each image moved by up to PADDING pixels over black, every second one mirrored."""
    side = images.shape[-1]
    wide = numpy.pad(images, ((0, 0), (0, 0), (PADDING, PADDING), (PADDING, PADDING)))
    places = random.randint(0, 2 * PADDING + 1, (len(images), 2))
    moved = numpy.stack([image[:, y:y + side, x:x + side] for image, (y, x) in zip(wide, places)])
    mirrored = random.uniform(size=len(images)) < 0.5
    moved[mirrored] = moved[mirrored, :, :, ::-1]
    return moved


# ---- training

def top1(network, scale, images, classes):
    """Share of images whose class has the greatest logit."""
    network.eval()
    with torch.no_grad():
        hits = [network(scale(images[i:i + BATCH])).argmax(1).cpu().numpy() == classes[i:i + BATCH]
                for i in range(0, len(images), BATCH)]
    return float(numpy.concatenate(hits).mean())


def make_optimizer(name, network, rate, steps):
    """The optimizer, and what sets its rate before each step."""
    if name == "adam":
        optimizer = torch.optim.Adam(network.parameters(), rate)
        return optimizer, torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)
    optimizer = torch.optim.SGD(network.parameters(), rate, MOMENTUM, weight_decay=DECAY)
    return optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)


def train_epoch(network, scale, optimizer, scheduler, images, classes, random):
    """The mean loss."""
    network.train()
    losses = []
    order = random.permutation(len(images))
    for chosen in (order[i:i + BATCH] for i in range(0, len(order), BATCH)):
        logits = network(scale(vary(images[chosen], random)))
        aim = torch.from_numpy(classes[chosen]).to(logits.device)
        loss = functional.cross_entropy(logits, aim)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    return float(numpy.mean(losses))


def train(network, scale, train_set, test_set, options):
    steps = options.epochs * math.ceil(len(train_set[0]) / BATCH)
    rate = RATES[options.optimizer] if options.rate is None else options.rate
    optimizer, scheduler = make_optimizer(options.optimizer, network, rate, max(steps, 1))
    random = numpy.random.RandomState(options.seed)
    print(f"before   top-1 {100 * top1(network, scale, *test_set):.2f} %", flush=True)
    seconds = 0.0
    for epoch in range(options.epochs):
        began = time.time()
        loss = train_epoch(network, scale, optimizer, scheduler, *train_set, random)
        seconds += time.time() - began
        accuracy = top1(network, scale, *test_set)
        print(f"epoch {epoch + 1}  top-1 {100 * accuracy:.2f} %, training loss {loss:.4f}, "
              f"{seconds:.1f} s of training", flush=True)


def read_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", type=pathlib.Path)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, help="torch file to write")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--images", type=int, help="train on this many images only")
    parser.add_argument("--optimizer", choices=RATES, default="sgd")
    parser.add_argument("--rate", type=float, help="default: 0.01, for adam 1e-4")
    parser.add_argument("--preset", choices=PRESETS)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main():
    options = read_options()
    path = find_file(options.checkpoint)
    checkpoint, network = load(path)
    preset = options.preset or choose_preset(path, network)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    network = network.to(device, memory_format=torch.channels_last)
    train_set, test_set = read_data(options.data, options.images)
    parameters = sum(p.numel() for p in network.parameters())
    print(f"{path}: {parameters} parameters, preset {preset}, {len(train_set[0])} training images, "
          f"{len(test_set[0])} test images", flush=True)
    train(network, Scale(preset, device), train_set, test_set, options)
    if options.output is not None:
        save(checkpoint, network, options.output)


if __name__ == "__main__":
    main()
