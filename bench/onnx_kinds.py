#!/usr/bin/env python3
"""Exports networks of other kinds than torchvision's classifiers to ONNX (random weights, all of them different): detectors and
segmentation of torchvision and ultralytics, U-Nets, autoencoders, super-resolution, networks of signals, an encoder of
Whisper's form, and timm's families. Each loses 20 % of its channels, heads and neurons, and the narrow file must give in
ONNX Runtime what `grail logits` gives: the largest difference, relative to the largest value of that output's channel.

needs: torch, torchvision, timm, onnxscript, onnxruntime, safetensors; transformers for whisper; ultralytics for yolo
usage: onnx_kinds.py GRAIL FOLDER [--older] [--only NAME,...]
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import warnings

import numpy as np
import onnxruntime
import torch
import torch.nn.functional as F
from safetensors.numpy import load_file, save_file
from torch import nn

SIGNALS = {"conv1d": (6, 64), "unet1d": (4, 64), "whisper": (80, 200)}
OWN = "unet unet_bilinear espcn edsr nafnet resnet20 autoencoder swiglu".split()
TORCHVISION = ("deeplabv3_mobilenet_v3_large lraspp_mobilenet_v3_large fcn_resnet50 ssdlite320_mobilenet_v3_large "
               "retinanet_resnet50_fpn").split()
YOLO = "yolov3-tiny yolov5n yolov6n yolov8n yolov8n-seg yolov10n yolo11n yolo12n".split()
SMALL = """mobilevit_xxs mobilevitv2_050 repvgg_a0 hrnet_w18_small edgenext_xx_small cspdarknet53 dla34 ese_vovnet19b_dw
    dm_nfnet_f0 poolformer_s12 convmixer_768_32 fastvit_t8 mobileone_s0 mobilenetv4_conv_small skresnet18 resnest14d eca_nfnet_l0
    nf_regnet_b0 gernet_s selecsls42b tresnet_m xception41 dpn48b hardcorenas_a tinynet_e convnextv2_atto starnet_s1 repvit_m0_9
    inception_next_atto pvt_v2_b0 visformer_tiny mambaout_femto mixer_s32_224 resmlp_12_224 gmixer_12_224
    gmlp_ti16_224 coatnet_pico_rw_224""".split()
LARGE = """swin_tiny_patch4_window7_224 swinv2_cr_tiny_ns_224 levit_128s xcit_nano_12_p16_224 cait_xxs24_224 beit_base_patch16_224
    vit_base_patch16_siglip_224 tiny_vit_5m_224 maxvit_rmlp_pico_rw_256 deit3_small_patch16_224 pit_ti_224 twins_svt_small
    coat_lite_tiny nest_tiny efficientvit_b0 efficientvit_m0 focalnet_tiny_srf davit_tiny mvitv2_tiny sequencer2d_s
    tnt_s_patch16_224 vit_tiny_r_s16_p8_224 vit_relpos_small_patch16_224 hiera_tiny_224 efficientformerv2_s0""".split()
SIDES = {name: 64 for name in [*OWN, *TORCHVISION, *YOLO, *SMALL]} | {name: 224 for name in LARGE}


class UNet(nn.Module):
    """Encoder and decoder with skips; by transposed convolutions, or resized. It reads images or signals."""

    def __init__(self, channels=3, resized=False, dimensions=2):
        super().__init__()
        conv, norm = (nn.Conv1d, nn.BatchNorm1d) if dimensions == 1 else (nn.Conv2d, nn.BatchNorm2d)
        turned = nn.ConvTranspose1d if dimensions == 1 else nn.ConvTranspose2d
        widths = [16, 32, 64]
        pool = nn.MaxPool1d(2) if dimensions == 1 else nn.MaxPool2d(2)

        def double(inputs, outputs):
            return nn.Sequential(conv(inputs, outputs, 3, padding=1, bias=False), norm(outputs), nn.ReLU(),
                                 conv(outputs, outputs, 3, padding=1, bias=False), norm(outputs), nn.ReLU())

        self.first = double(channels, widths[0])
        self.down = nn.ModuleList(nn.Sequential(pool, double(a, b)) for a, b in zip(widths, widths[1:]))
        self.up = nn.ModuleList(nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), conv(b, a, 1)) if resized else turned(b, a, 2, 2)
                                for a, b in zip(widths, widths[1:]))
        self.joined = nn.ModuleList(double(2 * a, a) for a in widths[:-1])
        self.last = conv(widths[0], 2, 1)

    def forward(self, x):
        kept = [self.first(x)]
        for down in self.down:
            kept.append(down(kept[-1]))
        x = kept.pop()
        for up, joined in zip(reversed(self.up), reversed(self.joined)):
            x = joined(torch.cat([kept.pop(), up(x)], 1))
        return self.last(x)


class Edsr(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Conv2d(3, 32, 3, padding=1)
        self.body = nn.ModuleList(nn.Sequential(nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1)) for _ in range(3))
        self.tail = nn.Sequential(nn.Conv2d(32, 128, 3, padding=1), nn.PixelShuffle(2), nn.Conv2d(32, 3, 3, padding=1))

    def forward(self, x):
        x = self.head(x)
        for block in self.body:
            x = x + 0.1 * block(x)
        return self.tail(x)


class ChannelNorm(nn.Module):
    """Over the channels of each position, spelled out as in ConvNeXt's and SAM's code."""

    def __init__(self, channels):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))

    def forward(self, x):
        x = x - x.mean(1, keepdim=True)
        x = x / torch.sqrt(x.pow(2).mean(1, keepdim=True) + 1e-6)
        return self.weight[:, None, None] * x + self.bias[:, None, None]


class Gated(nn.Module):
    """A block of NAFNet's form: halves of the channels gate each other."""

    def __init__(self, channels):
        super().__init__()
        self.norms = nn.ModuleList(ChannelNorm(channels) for _ in range(2))
        self.wide = nn.ModuleList(nn.Conv2d(channels, 2 * channels, 1) for _ in range(2))
        self.near = nn.Conv2d(2 * channels, 2 * channels, 3, padding=1, groups=2 * channels)
        self.attention = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, channels, 1))
        self.narrow = nn.ModuleList(nn.Conv2d(channels, channels, 1) for _ in range(2))
        self.scales = nn.ParameterList(nn.Parameter(torch.full((1, channels, 1, 1), 0.3)) for _ in range(2))

    def forward(self, x):
        left, right = self.near(self.wide[0](self.norms[0](x))).chunk(2, 1)
        x = x + self.narrow[0](left * right * self.attention(left * right)) * self.scales[0]
        left, right = self.wide[1](self.norms[1](x)).chunk(2, 1)
        return x + self.narrow[1](left * right) * self.scales[1]


class ResNet20(nn.Module):
    """CIFAR's, with shortcuts of option A: every second position, and zeros beside the channels."""

    def __init__(self):
        super().__init__()
        widths = [16] * 4 + [32] * 3 + [64] * 3
        self.first, self.head = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()), nn.Linear(64, 10)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(a, b, 3, b // a, 1), nn.BatchNorm2d(b), nn.ReLU(), nn.Conv2d(b, b, 3, padding=1), nn.BatchNorm2d(b))
            for a, b in zip(widths, widths[1:]))

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            made = block(x)
            pads = (made.shape[1] - x.shape[1]) // 2
            x = F.relu(made + (F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, pads, pads)) if pads else x))
        return self.head(x.mean((2, 3)))


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(16, 32, 3, 2, 1), nn.BatchNorm2d(32),
                                     nn.LeakyReLU(0.2), nn.Conv2d(32, 64, 3, 2, 1), nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(4096, 40))
        self.code = nn.Linear(40, 4096)
        self.decoder = nn.Sequential(nn.ConvTranspose2d(64, 32, 3, 2, 1, 1), nn.BatchNorm2d(32), nn.ReLU(), nn.ConvTranspose2d(32, 16, 4, 2, 1),
                                     nn.ReLU(), nn.ConvTranspose2d(16, 3, 4, 2, 1), nn.Sigmoid())

    def forward(self, x):
        return self.decoder(self.code(self.encoder(x)).view(-1, 64, 8, 8))


class SwiGlu(nn.Module):
    """Patches, and blocks with an RMS norm and a gated FFN whose two halves are one matrix."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 48, 8, 8)
        self.norms = nn.ModuleList(nn.RMSNorm(48) for _ in range(2))
        self.both = nn.ModuleList(nn.Linear(48, 192) for _ in range(2))
        self.down = nn.ModuleList(nn.Linear(96, 48) for _ in range(2))
        self.head = nn.Linear(48, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        for norm, both, down in zip(self.norms, self.both, self.down):
            gate, value = both(norm(x)).chunk(2, -1)
            x = x + down(F.silu(gate) * value)
        return self.head(x.mean(1))


class Conv1d(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv1d(6, 16, 7, 2, 3), nn.BatchNorm1d(16), nn.ReLU(), nn.MaxPool1d(3, 2, 1), nn.Conv1d(16, 32, 3, padding=1),
                                  nn.BatchNorm1d(32), nn.ReLU(), nn.Conv1d(32, 32, 5, padding=4, dilation=2, groups=32), nn.SiLU(), nn.Conv1d(32, 24, 1))
        self.gate = nn.Sequential(nn.AdaptiveAvgPool1d(1), nn.Conv1d(24, 8, 1), nn.ReLU(), nn.Conv1d(8, 24, 1), nn.Sigmoid())
        self.head = nn.Linear(24, 5)

    def forward(self, x):
        x = self.body(x)
        return self.head((x * self.gate(x)).mean(2))


class Outputs(nn.Module):
    """What a network gives, as a list of tensors; of detectors, what heads make of the features, before boxes are chosen."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        if hasattr(self.network, "head"):
            return list(self.network.head(list(self.network.backbone(x).values())).values())
        return self.network(x)["out"]


def yolo(name):
    from ultralytics.nn.tasks import DetectionModel, SegmentationModel

    network = (SegmentationModel if "-seg" in name else DetectionModel)(f"{name}.yaml", verbose=False)
    for module in network.modules():
        if hasattr(module, "export"):
            module.export, module.format = True, "onnx"
    return network


def whisper():
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    class Hidden(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = WhisperEncoder(WhisperConfig(d_model=48, encoder_layers=2, encoder_attention_heads=3, encoder_ffn_dim=192,
                                                        num_mel_bins=80, max_source_positions=100))

        def forward(self, x):
            return self.encoder(x)[0]

    return Hidden()


def make(name):
    import timm
    import torchvision

    own = {"unet": UNet, "unet_bilinear": lambda: UNet(resized=True), "edsr": Edsr, "autoencoder": Autoencoder, "swiglu": SwiGlu,
           "nafnet": lambda: nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), Gated(16), nn.Conv2d(16, 32, 2, 2), Gated(32), nn.Conv2d(32, 12, 1),
                                           nn.PixelShuffle(2)), "resnet20": ResNet20,
           "espcn": lambda: nn.Sequential(nn.Conv2d(3, 64, 5, padding=2), nn.Tanh(), nn.Conv2d(64, 32, 3, padding=1), nn.Tanh(),
                                          nn.Conv2d(32, 12, 3, padding=1), nn.PixelShuffle(2)),
           "conv1d": Conv1d, "unet1d": lambda: UNet(4, dimensions=1), "whisper": whisper}
    if name in own:
        return own[name]()
    if name in TORCHVISION:
        return Outputs(torchvision.models.get_model(name, weights=None, weights_backbone=None))
    if name in YOLO:
        return yolo(name)
    try:
        return timm.create_model(name, pretrained=False, img_size=SIDES.get(name, 64))
    except TypeError:  # of networks that take images of any size
        return timm.create_model(name, pretrained=False)


def export(name, path, older):
    torch.manual_seed(1)
    network = make(name).eval()
    with torch.no_grad():
        for values in (*network.parameters(), *network.buffers()):
            if values.is_floating_point():
                values.add_(torch.rand_like(values) * 1e-3)
    side = SIDES.get(name, 64)
    samples = torch.zeros(2, *SIGNALS.get(name, (3, side, side)))
    with torch.no_grad():
        if older:
            torch.onnx.export(network, (samples,), str(path), dynamo=False, opset_version=17, input_names=["pixels"],
                              dynamic_axes={"pixels": {0: "N"}})
        else:
            torch.onnx.export(network, (samples,), dynamo=True, verbose=False, input_names=["pixels"],
                              dynamic_shapes=({0: torch.export.Dim("N")},)).save(path)
    return samples.shape


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr.strip().splitlines()


def difference(grail, directory, name, shape, folder):
    """The largest of all outputs, relative to the largest value in each dimension between samples and the last one."""
    samples = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    images = samples if samples.ndim == 4 else samples[..., None]
    save_file({"pixels": np.ascontiguousarray(images.transpose(0, 2, 3, 1))}, folder / "pixels.safetensors")
    session = onnxruntime.InferenceSession(str(directory / name), providers=["CPUExecutionProvider"])
    out = folder / "outputs.safetensors"
    out.unlink(missing_ok=True)
    code, _, said = run(grail, "logits", directory, "--pixels", folder / "pixels.safetensors", "--output", out)
    if code != 0:
        raise RuntimeError(said[-1])
    written = load_file(out)
    worst = 0.0
    for output, theirs in zip(session.get_outputs(), session.run(None, {"pixels": samples}), strict=True):
        ours = written[output.name] if len(written) > 1 else next(iter(written.values()))
        if theirs.ndim == 4:
            ours = ours.transpose(0, 3, 1, 2)
        elif theirs.ndim == 3:
            ours = ours[:, :, 0] if ours[:, :, 0].shape == theirs.shape else ours[:, :, 0].transpose(0, 2, 1)
        scale = np.abs(theirs).max(axis=(0, theirs.ndim - 1), keepdims=True) if theirs.ndim > 2 else np.abs(theirs).max()
        worst = max(worst, float((np.abs(ours - theirs) / np.maximum(scale, 1e-4 * np.abs(theirs).max())).max()))
    return worst


def try_network(grail, name, older, folder):
    path, out = folder / f"{name}.onnx", folder / f"{name}-narrow"
    try:
        shape = export(name, path, older)
    except Exception as failure:  # the exporter's own
        return f"not exported: {str(failure).splitlines()[0][:100]}"
    code, sites, said = run(grail, "inspect", path)
    if code != 0:
        return "refused: " + said[-1].split(".onnx: ", 1)[-1]
    shutil.rmtree(out, ignore_errors=True)
    kinds = ",".join(kind for kind in ("conv", "ffn", "heads") if f"  {kind}  " in sites)
    regions = sum(line.startswith("region of ") for line in sites.splitlines())
    left = f"; {regions} regions" if regions else ""
    if not kinds:
        return f"no sites but those of streams{left}"
    calibration = folder / "calibration.npy"  # for norms over a width that is cut
    np.save(calibration, np.random.default_rng(2).normal(size=(4, *shape[1:])).astype(np.float32))
    code, _, said = run(grail, "compress", path, "-o", out, "--sites", kinds, "--sparsity", "0.2", "--selector", "magnitude-l1",
                        "--compensate", "none", "--calib", calibration, "--quiet")
    if code != 0:
        return "not narrowed: " + said[-1].split(".onnx: ", 1)[-1]
    report = json.loads((out / "report.json").read_text())
    share = report["narrow"]["parameters"] / report["dense"]["parameters"]
    apart = difference(grail, out, path.name, shape, folder)
    return f"{kinds.replace(',', ', ')}: {share:.0%} of the parameters are left{left}; differ by {apart:.1e}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("grail", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--older", action="store_true", help="by the exporter without dynamo, opset 17")
    parser.add_argument("--only", type=lambda names: names.split(","), default=[*SIGNALS, *SIDES])
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    given.folder.mkdir(parents=True, exist_ok=True)
    print("| network | |\n|---|---|")
    for name in given.only:
        try:
            answer = try_network(given.grail.resolve(), name, given.older, given.folder)
        except RuntimeError as failure:
            answer = f"failed: {failure}"
        for left in given.folder.glob(f"{name}*"):
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        print(f"| {name} | {answer} |", flush=True)


if __name__ == "__main__":
    main()
