#!/usr/bin/env python3
"""Images per second of the forward pass, grail against torch, in turn on the same batch.

usage: bench_forward_torch.py PROGRAM [--networks NAME,...] [--batch 128] [--runs 9] [--threads 2]

PROGRAM is bench_forward, built in Release. Networks: resnet18-cifar (the shared checkpoint when it
is there, else random), resnet18 (ImageNet, random), vit-b-32 (random). The outputs of both must
agree. One JSON object per network: medians over the runs of images per second by the clock and by
processor time (which other work on the machine disturbs less), and of their ratio. torch runs in
its default layout, and again in channels_last; the faster of the two counts.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # a waiting process must not take CPU time

import torch  # noqa: E402
import torchvision  # noqa: E402

TOLERANCE = 1e-3  # of the largest output


def cifar_resnet18():
    """ResNet-18 with a 3 x 3 stem and no pooling, 10 classes."""
    network = torchvision.models.resnet18(weights=None, num_classes=10)
    network.conv1 = torch.nn.Conv2d(3, 64, 3, 1, 1, bias=False)
    network.maxpool = torch.nn.Identity()
    data = os.environ.get("GRAIL_SHARED_DATA",
                          pathlib.Path(__file__).resolve().parents[2] / "shared" / "data")
    path = pathlib.Path(data) / "resnet18-cifar10" / "resnet18_cifar10.pth"
    if path.exists():
        state = torch.load(path, map_location="cpu")
        names = {".shortcut.": ".downsample.", "linear.": "fc."}
        network.load_state_dict({rename(k, names): v for k, v in state.items()})
    return network


def rename(name, names):
    for old, new in names.items():
        name = name.replace(old, new)
    return name


class Attention(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.proj = torch.nn.Linear(width, width)

    def forward(self, x):
        samples, length, width = x.shape
        q, k, v = self.qkv(x).reshape(samples, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5).softmax(dim=-1)
        return self.proj((weights @ v).transpose(1, 2).reshape(samples, length, width))


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = torch.nn.LayerNorm(width, eps=1e-6)
        self.attn = Attention(width, heads)
        self.norm2 = torch.nn.LayerNorm(width, eps=1e-6)
        self.mlp = torch.nn.ModuleDict({"fc1": torch.nn.Linear(width, 4 * width),
                                        "fc2": torch.nn.Linear(4 * width, width)})

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        h = torch.nn.functional.gelu(self.mlp["fc1"](self.norm2(x)))
        return x + self.mlp["fc2"](h)


class Transformer(torch.nn.Module):
    """ViT-B/32 in the parameter names of timm (Dosovitskiy et al. 2021)."""

    def __init__(self, width=768, depth=12, heads=12, patch=32, side=224, classes=1000):
        super().__init__()
        self.patch_embed = torch.nn.ModuleDict(
            {"proj": torch.nn.Conv2d(3, width, patch, patch)})
        self.cls_token = torch.nn.Parameter(torch.randn(1, 1, width))
        positions = (side // patch) ** 2 + 1
        self.pos_embed = torch.nn.Parameter(torch.randn(1, positions, width))
        self.blocks = torch.nn.Sequential(*[Block(width, heads) for _ in range(depth)])
        self.norm = torch.nn.LayerNorm(width, eps=1e-6)
        self.head = torch.nn.Linear(width, classes)

    def forward(self, x):
        x = self.patch_embed["proj"](x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1) + self.pos_embed
        return self.head(self.norm(self.blocks(x))[:, 0])


NETWORKS = {
    "resnet18-cifar": (cifar_resnet18, 32),
    "resnet18": (lambda: torchvision.models.resnet18(weights=None), 224),
    "vit-b-32": (Transformer, 224),
}


def write_safetensors(state, path):
    header, blobs, offset = {}, [], 0
    for name, tensor in state.items():
        if not tensor.is_floating_point():
            continue
        blob = tensor.detach().contiguous().numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape),
                        "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.writelines(blobs)


class Grail:
    """bench_forward as a server: one pass per line."""

    def __init__(self, program, directory, side, batch, threads, fused):
        outputs = directory / f"outputs{fused}"
        self.process = subprocess.Popen(
            [program, directory / "model.safetensors", directory / "pixels", outputs, "--side",
             str(side), "--batch", str(batch), "--threads", str(threads), "--fused", str(fused)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.run()
        self.outputs = torch.frombuffer(bytearray(outputs.read_bytes()), dtype=torch.float32)

    def run(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("bench_forward ended early")
        return tuple(float(part) for part in line.split())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Torch:
    def __init__(self, network, pixels, layout):
        self.network = network.to(memory_format=layout)
        self.pixels = pixels.contiguous(memory_format=layout)
        self.layout = layout
        self.run()

    def run(self):
        self.network.to(memory_format=self.layout)
        clock, processor = time.perf_counter(), time.process_time()
        with torch.inference_mode():
            self.outputs = self.network(self.pixels)
        return time.perf_counter() - clock, time.process_time() - processor


def measure(name, options):
    make, side = NETWORKS[name]
    torch.manual_seed(0)
    network = make().eval()
    pixels = torch.randn(options.batch, 3, side, side)
    with tempfile.TemporaryDirectory() as path:
        directory = pathlib.Path(path)
        write_safetensors(network.state_dict(), directory / "model.safetensors")
        (directory / "pixels").write_bytes(pixels.permute(0, 2, 3, 1).contiguous().numpy().tobytes())
        runners = {
            "grail": Grail(options.program, directory, side, options.batch, options.threads, 1),
            "grail node by node":
                Grail(options.program, directory, side, options.batch, options.threads, 0),
            "torch": Torch(network, pixels, torch.contiguous_format),
            "torch channels_last": Torch(network, pixels, torch.channels_last),
        }
        check(runners)
        times = {key: [] for key in runners}
        for _ in range(options.runs):
            for key, runner in runners.items():
                times[key].append(runner.run())
        runners["grail"].close()
        runners["grail node by node"].close()
    return report(name, options, times)


def check(runners):
    expected = runners["torch"].outputs.flatten()
    for key in ("grail", "grail node by node"):
        error = ((runners[key].outputs - expected).abs().max() / expected.abs().max()).item()
        if not error < TOLERANCE:
            raise SystemExit(f"{key} and torch differ by {error} of the largest output")


def report(name, options, times):
    result = {"bench": "forward", "network": name, "batch": options.batch,
              "threads": options.threads, "runs": options.runs, "torch_version": torch.__version__}
    for place, kind in enumerate(("clock", "processor")):
        seconds = {key: [pair[place] for pair in pairs] for key, pairs in times.items()}
        medians = {key: statistics.median(values) for key, values in seconds.items()}
        best = min(("torch", "torch channels_last"), key=medians.get)
        result[kind] = {key: round(options.batch / value, 1) for key, value in medians.items()}
        for key in ("grail", "grail node by node"):
            ratio = statistics.median(t / g for t, g in zip(seconds[best], seconds[key]))
            result[kind][f"ratio {key}"] = round(ratio, 3)
    return result


def main():
    parser = argparse.ArgumentParser(description="forward pass, grail against torch")
    parser.add_argument("program")
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for name in options.networks.split(","):
        print(json.dumps(measure(name, options), indent=2), flush=True)


if __name__ == "__main__":
    main()
