"""Residual networks for golden references whose values are a formula of the tensor's name and the
element's index, which tests/unit/arch/lab_network.c computes too."""

import math

import numpy
import torch
import torch.nn.functional
import torchvision
from torch import nn


# -- values by formula ---------------------------------------------------------------------------

def uniform(name, count):
    """The elements called `name`, in [-1, 1): 24 bits of splitmix64 from a state of FNV-1a."""
    state = 14695981039346656037
    for byte in name.encode():
        state = (state ^ byte) * 1099511628211 & 0xFFFFFFFFFFFFFFFF
    with numpy.errstate(over="ignore"):
        s = numpy.arange(1, count + 1, dtype=numpy.uint64) * numpy.uint64(0x9E3779B97F4A7C15)
        s += numpy.uint64(state)
        s = (s ^ (s >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        s = (s ^ (s >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        s ^= s >> numpy.uint64(31)
    return (s >> numpy.uint64(40)).astype(numpy.float64) / 8388608.0 - 1.0


def values(name, shape):
    """Matrices keep the size of what they multiply, norms change it little."""
    offset, scale = 0.0, 0.25
    fan_in = math.prod(shape[1:])
    if len(shape) == 4:
        scale = math.sqrt(6.0 / fan_in)
    elif len(shape) == 2:
        scale = 4.0 / math.sqrt(fan_in)
    elif name.endswith(".weight"):
        offset = 0.5
    elif name.endswith(".running_var"):
        offset = 0.75
    return (offset + scale * uniform(name, math.prod(shape))).astype(numpy.float32).reshape(shape)


def fill(model):
    state = {name: torch.from_numpy(values(name, tuple(tensor.shape)))
             for name, tensor in model.state_dict().items() if tensor.dtype == torch.float32}
    model.load_state_dict(state, strict=False)
    return model


def pixels(count, side):
    """NCHW from channel-last values called "pixels", about as large as normalised images."""
    nhwc = 2.0 * uniform("pixels", count * side * side * 3)
    image = torch.from_numpy(nhwc.astype(numpy.float32).reshape(count, side, side, 3))
    return image.permute(0, 3, 1, 2).contiguous()


# -- networks that no package has ----------------------------------------------------------------

def conv(inner, outer, kernel, stride=1):
    return nn.Conv2d(inner, outer, kernel, stride, kernel // 2, bias=False)


class PaddedBlock(nn.Module):
    """CIFAR block of He et al. 2015 with option A: every second pixel, zero channels around."""

    def __init__(self, inner, outer, stride):
        super().__init__()
        self.conv1 = conv(inner, outer, 3, stride)
        self.bn1 = nn.BatchNorm2d(outer)
        self.conv2 = conv(outer, outer, 3)
        self.bn2 = nn.BatchNorm2d(outer)
        self.stride = stride
        self.pad = (outer - inner) // 2

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        short = x[:, :, ::self.stride, ::self.stride]
        return torch.relu(y + torch.nn.functional.pad(short, (0, 0, 0, 0, self.pad, self.pad)))


class ProjectedBlock(nn.Module):
    """Block whose shortcut is a convolution with BatchNorm where the shape changes."""

    def __init__(self, inner, outer, stride):
        super().__init__()
        self.conv1 = conv(inner, outer, 3, stride)
        self.bn1 = nn.BatchNorm2d(outer)
        self.conv2 = conv(outer, outer, 3)
        self.bn2 = nn.BatchNorm2d(outer)
        self.downsample = nn.Sequential()
        if stride != 1 or inner != outer:
            self.downsample = nn.Sequential(conv(inner, outer, 1, stride), nn.BatchNorm2d(outer))

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + self.downsample(x))


class PreActivatedBlock(nn.Module):
    """Block of He et al. 2016; a projection reads what was normalised and activated."""

    def __init__(self, inner, outer, stride):
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inner)
        self.conv1 = conv(inner, outer, 3, stride)
        self.bn2 = nn.BatchNorm2d(outer)
        self.conv2 = conv(outer, outer, 3)
        self.shortcut = None
        if stride != 1 or inner != outer:
            self.shortcut = nn.Sequential(conv(inner, outer, 1, stride))

    def forward(self, x):
        p = torch.relu(self.bn1(x))
        short = x if self.shortcut is None else self.shortcut(p)
        return short + self.conv2(torch.relu(self.bn2(self.conv1(p))))


class CifarNet(nn.Module):
    """3 x 3 stem, stages of doubling width, mean, head. `head` is "fc" or "linear"."""

    def __init__(self, block, width, blocks, head):
        super().__init__()
        self.conv1 = conv(3, width, 3)
        self.stages = len(blocks)
        self.head = head
        self.pre_activated = block is PreActivatedBlock
        if not self.pre_activated:
            self.bn1 = nn.BatchNorm2d(width)
        inner = width
        for s, count in enumerate(blocks):
            outer = width << s
            stride = 2 if s > 0 else 1
            layer = [block(inner if b == 0 else outer, outer, stride if b == 0 else 1)
                     for b in range(count)]
            setattr(self, f"layer{s + 1}", nn.Sequential(*layer))
            inner = outer
        if self.pre_activated:
            self.bn = nn.BatchNorm2d(inner)
        setattr(self, head, nn.Linear(inner, 10))

    def forward(self, x):
        x = self.conv1(x)
        if not self.pre_activated:
            x = torch.relu(self.bn1(x))
        for s in range(self.stages):
            x = getattr(self, f"layer{s + 1}")(x)
        if self.pre_activated:
            x = torch.relu(self.bn(x))
        return getattr(self, self.head)(x.mean((2, 3)))


def akamaster(blocks):
    return CifarNet(PaddedBlock, 16, [blocks] * 3, "linear")


def cifar_resnet18():
    return CifarNet(ProjectedBlock, 64, [2, 2, 2, 2], "fc")


def pre_activation(width):
    return CifarNet(PreActivatedBlock, width, [2, 2, 2, 2], "linear")


def narrowed_resnet50():
    """torchvision's bottlenecks at odd widths: 3 + 5 s inside, 13 + 4 s in stage s's residual
    stream."""
    model = torchvision.models.ResNet(torchvision.models.resnet.Bottleneck, [1, 2, 1, 2], 7)

    def norm(width):
        return nn.BatchNorm2d(width)

    model.conv1 = nn.Conv2d(3, 9, 7, 2, 3, bias=False)
    model.bn1 = norm(9)
    stream = 9
    for s in range(4):
        inner, outer = 3 + 5 * s, 13 + 4 * s
        for b, block in enumerate(getattr(model, f"layer{s + 1}")):
            stride = 2 if s > 0 and b == 0 else 1
            block.conv1, block.bn1 = conv(stream, inner, 1), norm(inner)
            block.conv2, block.bn2 = conv(inner, inner, 3, stride), norm(inner)
            block.conv3, block.bn3 = conv(inner, outer, 1), norm(outer)
            if b == 0:
                block.downsample = nn.Sequential(conv(stream, outer, 1, stride), norm(outer))
            stream = outer
    model.fc = nn.Linear(stream, 7)
    return model
