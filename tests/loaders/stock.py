#!/usr/bin/env python3
"""Makes stock checkpoints of random weights, and reports what grail makes of them.

usage: stock.py GRAIL [--onnx] [--output FILE.md] [--records FILE.jsonl] [--only TEXT] [--list]

Each network is made by its own library, saved as this library saves it, and deleted after use.
grail opens or refuses it. If it opens, `grail logits` is compared with the library's own forward pass
in f32; then 30 % of its units are removed, and the library runs the result: as report.json says
that it loads or, where report.json says that the stock class does not load it, with modules of the
tensors' shapes, after a check that the stock class indeed refuses it. Differences are relative to
the largest output. With --onnx, the image networks whose weights alone are refused are exported to
ONNX instead, and ONNX Runtime computes the result; the table goes under its own heading of the
output file, and the rest of that file stays. Exits with 1 when a network is not opened or refused as expected here, or a
difference exceeds 1e-4 and twice the library's own rounding. Needs torch, torchvision, timm, transformers, open_clip, safetensors, numpy,
with --onnx onnx, onnxscript and onnxruntime; networks of libraries that are not installed are passed over. Run by hand.
"""

import argparse
import dataclasses
import importlib
import importlib.metadata
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import typing
import warnings

import numpy
import safetensors.numpy
import torch

TOLERANCE = 1e-4
ONNX_HEADING = "## Through ONNX"
CONVOLUTIONAL_SIDE = 64  # of images, where the network takes any
IMAGES = pathlib.Path(__file__).resolve().parents[2] / "demo/vision/calibration"


@dataclasses.dataclass
class Case:
    """`make` builds the network; `expected` is "" where grail opens it, otherwise words of its
    refusal."""
    library: str
    name: str
    expected: str
    make: typing.Callable
    settings: tuple = ()
    sparsity: str = "0.3"
    compensate: str = "full"

    @property
    def adapter(self):
        return ADAPTERS[self.library]


# -- libraries: how a checkpoint is saved, run, and loaded when it is narrow --------------------

def state_of(directory):
    """The tensors of the only weights file that grail wrote."""
    files = [f for f in sorted(directory.iterdir())
             if f.suffix in (".safetensors", ".pth", ".pt", ".bin")]
    assert len(files) == 1, files
    if files[0].suffix == ".safetensors":
        return {name: torch.from_numpy(value)
                for name, value in safetensors.numpy.load_file(str(files[0])).items()}
    loaded = torch.load(files[0], weights_only=True)
    return loaded.get("state_dict", loaded)


class Torchvision:
    @staticmethod
    def save(model, directory):
        torch.save(model.state_dict(), directory / "weights.pth")
        return directory / "weights.pth"

    @staticmethod
    def side(model):
        return getattr(model, "image_size", CONVOLUTIONAL_SIDE)

    @staticmethod
    def run(model, x):
        return model(x)

    @staticmethod
    def load(case, directory, reason):
        width = int(re.search(r"mlp_dim=(\d+)", reason).group(1))
        wide = case.make()
        model = type(wide)(
            image_size=wide.image_size, patch_size=wide.patch_size,
            num_layers=len(wide.encoder.layers), num_heads=wide.encoder.layers[0].num_heads,
            hidden_dim=wide.hidden_dim, mlp_dim=width)
        model.load_state_dict(state_of(directory))
        return model


class Timm(Torchvision):
    @staticmethod
    def save(model, directory):
        import timm.models
        timm.models.save_for_hf(model, directory, safe_serialization=True)
        return directory

    @staticmethod
    def side(model):
        patches = getattr(model, "patch_embed", None)
        return patches.img_size[0] if patches is not None else CONVOLUTIONAL_SIDE

    @staticmethod
    def load(case, directory, reason):
        ratio = float(re.search(r"mlp_ratio ([0-9.e+-]+[0-9])", reason).group(1))
        model = case.make(mlp_ratio=ratio)
        model.load_state_dict(state_of(directory))
        return model


class Transformers:
    @staticmethod
    def save(model, directory):
        model.save_pretrained(directory)
        return directory

    @staticmethod
    def side(model):
        return getattr(getattr(model.config, "vision_config", model.config), "image_size", 64)

    @staticmethod
    def run(model, x):
        kind = type(model).__name__
        if x.dtype == torch.int64:
            return model(x).logits
        if kind in ("CLIPModel", "SiglipModel"):
            features = model.get_image_features(pixel_values=x)
            return features if torch.is_tensor(features) else features.pooler_output
        y = model(pixel_values=x)
        for name in ("logits", "image_embeds", "pooler_output"):
            if getattr(y, name, None) is not None:
                return getattr(y, name)
        raise ValueError(kind)

    @staticmethod
    def load(case, directory, reason):
        import transformers
        config = json.loads((directory / "config.json").read_text())
        # grail relabels a llama whose heads no longer divide its width
        model, info = getattr(transformers, config["architectures"][0]).from_pretrained(
            directory, output_loading_info=True, torch_dtype=torch.float32)
        assert not info["missing_keys"] and not info["unexpected_keys"], info
        return model


class OpenClip(Torchvision):
    @staticmethod
    def save(model, directory):
        torch.save({"epoch": 1, "state_dict": model.state_dict()}, directory / "epoch_1.pt")
        return directory / "epoch_1.pt"

    @staticmethod
    def side(model):
        size = model.visual.image_size
        return size if isinstance(size, int) else size[0]

    @staticmethod
    def run(model, x):
        return model.encode_image(x)

    @staticmethod
    def load(case, directory, reason):
        ratio = float(re.search(r"mlp_ratio\": ([0-9.e+-]+)", reason).group(1))
        model = case.make(mlp_ratio=ratio)
        model.load_state_dict(state_of(directory))
        return model


ADAPTERS = {"torchvision": Torchvision, "timm": Timm, "transformers": Transformers,
            "open_clip": OpenClip}


# -- the networks -------------------------------------------------------------------------------

OF_TOWERS = {"sparsity": "ffn=0.3"}
OF_RESNETS = {"sparsity": "conv=0.3", "compensate": "grail"}  # of real size: full takes minutes


def torchvision_cases():
    def made(name):
        import torchvision.models
        extra = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
        return lambda: getattr(torchvision.models, name)(weights=None, **extra)

    expected = {
        "resnet18": "", "resnet34": "", "resnet50": "", "resnet101": "", "resnet152": "",
        "wide_resnet50_2": "", "vit_b_16": "", "vit_b_32": "",
        "resnext50_32x4d": "", "regnet_x_400mf": "grouped convolution",
        "regnet_y_400mf": "channel attention", "densenet121": "concatenates channels",
        "googlenet": "concatenates channels", "inception_v3": "concatenates channels",
        "squeezenet1_1": "concatenates channels", "mobilenet_v2": "depthwise convolution",
        "mobilenet_v3_small": "depthwise convolution", "efficientnet_b0": "depthwise convolution",
        "mnasnet0_5": "depthwise convolution", "shufflenet_v2_x0_5": "depthwise convolution",
        "convnext_tiny": "layer scale", "swin_t": "relative positions",
        "maxvit_t": "relative positions", "alexnet": "chain of convolutions",
        "vgg11": "chain of convolutions"}
    for name, words in expected.items():
        yield Case("torchvision", name, words, made(name),
                   **(OF_TOWERS if name.startswith("vit") else OF_RESNETS))


def timm_cases():
    def made(name):
        import timm
        extra = {"depth": 3} if name.startswith(("vit_base", "vit_huge")) else {}
        return lambda **own: timm.create_model(name, **extra, **own)

    expected = {
        "resnet18": "", "resnet26": "", "resnet34": "", "resnet50": "", "wide_resnet50_2": "",
        "vit_tiny_patch16_224": "", "vit_small_patch16_224": "", "vit_small_patch32_224": "",
        "deit_tiny_patch16_224": "", "vit_base_patch32_clip_224": "", "vit_huge_patch14_224": "",
        "resnetblur50": "anti-aliasing", "vit_base_patch32_clip_quickgelu_224": "",
        "resnet18d": "ResNet-C, -D", "resnet26t": "ResNet-C, -D", "resnet50_gn": "running stat",
        "resnetv2_50": "ResNetV2", "seresnet50": "channel attention",
        "ecaresnet26t": "channel attention", "resnext50_32x4d": "",
        "regnetx_002": "grouped convolution", "densenet121": "concatenates channels",
        "mobilenetv3_small_050": "channel attention", "efficientnet_b0": "channel attention",
        "convnext_atto": "depthwise convolution", "cait_xxs24_224": "layer scale",
        "deit3_small_patch16_224": "layer scale",
        "deit_tiny_distilled_patch16_224": "distillation token",
        "vit_small_patch14_reg4_dinov2": "register tokens",
        "vit_little_patch16_reg4_gap_256": "register tokens",
        "eva02_tiny_patch14_224": "FFN|mean of the patches",
        "beit_base_patch16_224": "relative positions",
        "swin_tiny_patch4_window7_224": "relative positions",
        "mixer_s32_224": "mixes patches"}
    for name, words in expected.items():
        yield Case("timm", name, words, made(name),
                   **(OF_TOWERS if name.startswith(("vit", "deit")) else OF_RESNETS))


DECODER = {"hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 2,
           "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 96,
           "max_position_embeddings": 128, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
TOWER = {"hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 2,
         "num_attention_heads": 4, "image_size": 64, "patch_size": 16}


def transformers_cases():
    def made(config, model, sizes):
        import transformers
        return lambda: getattr(transformers, model)(getattr(transformers, config)(**sizes))

    experts = {"num_local_experts": 4, "num_experts": 4, "num_experts_per_tok": 2,
               "moe_intermediate_size": 80, "shared_expert_intermediate_size": 80}
    decoders = {
        **dict.fromkeys(
            ("Llama", "Mistral", "Qwen2", "Qwen3", "Gemma", "Gemma2", "Gemma3", "Phi", "Phi3",
             "SmolLM3", "Granite", "Starcoder2", "StableLm", "Glm", "Glm4", "Cohere", "Cohere2",
             "Olmo", "Olmo2", "Olmo3", "Falcon", "Mixtral", "Qwen2Moe", "Qwen3Moe", "Olmoe",
             "GraniteMoe", "GptOss", "DeepseekV2", "DeepseekV3", "Exaone4", "Nemotron", "GPT2",
             "GPTNeoX", "OPT"), ""),
        "Bloom": "ALiBi", "Mamba": "state-space", "Bert": "post-norm"}
    latent = {"num_key_value_heads": 8, "n_routed_experts": 4, "num_experts_per_tok": 2,
              "n_shared_experts": 1, "moe_intermediate_size": 80, "first_k_dense_replace": 1,
              "kv_lora_rank": 24, "q_lora_rank": 32, "qk_nope_head_dim": 16,
              "qk_rope_head_dim": 8, "v_head_dim": 16, "n_group": 1, "topk_group": 1}
    own = {"DeepseekV2": latent, "DeepseekV3": latent,
           "GptOss": {"num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 16},
           "OPT": {"ffn_dim": 160, "word_embed_proj_dim": 64},
           "Falcon": {"new_decoder_architecture": True, "num_kv_heads": 4,
                      "ffn_hidden_size": 160}}
    with_experts = ("Mixtral", "Qwen2Moe", "Qwen3Moe", "Olmoe", "GraniteMoe")
    models = {"GPT2": "GPT2LMHeadModel", "Bert": "BertForMaskedLM"}
    for name, words in decoders.items():
        sizes = DECODER | (experts if name in with_experts else {})
        sizes |= own.get(name, {})
        model = models.get(name, f"{name}ForCausalLM")
        config = "Gemma3TextConfig" if name == "Gemma3" else f"{name}Config"
        yield Case("transformers", model, words, made(config, model, sizes),
                   sparsity="ffn=0.3" if name == "Olmoe" else  # its norms are as wide as the stream
                   "ffn=0.3,heads=0.5" if name == "DeepseekV2" else  # which must divide the width
                   "ffn=0.3,heads=0.25")
        if name in own and "kv_lora_rank" in own[name]:
            case = Case("transformers", model, words, made(config, model, sizes),
                        sparsity="latent=0.25,values=0.25")
            yield dataclasses.replace(case, name=f"{case.name} (ranks and values)")
    t5 = {"d_model": 64, "d_ff": 128, "num_layers": 2, "num_heads": 4, "vocab_size": 96}
    yield Case("transformers", "T5ForConditionalGeneration", "encoder and a decoder",
               made("T5Config", "T5ForConditionalGeneration", t5))
    classifiers = {
        "ViT": "", "DeiT": "distillation token", "Dinov2": "layer scale",
        "Dinov2WithRegisters": "register tokens", "Beit": "relative positions",
        "Siglip": "no class token"}
    for name, words in classifiers.items():
        model = f"{name}ForImageClassification"
        sizes = {"vision_config": TOWER} if name == "Siglip" else TOWER | {"num_labels": 10}
        yield Case("transformers", model, words, made(f"{name}Config", model, sizes),
                   sparsity="ffn=0.3")
    for layer, depth in (("basic", (1, 2, 1)), ("bottleneck", (1, 2, 1))):
        sizes = {"embedding_size": 16, "hidden_sizes": [32, 64, 96], "depths": list(depth),
                 "layer_type": layer, "num_labels": 10}
        case = Case("transformers", "ResNetForImageClassification", "",
                    made("ResNetConfig", "ResNetForImageClassification", sizes))
        yield dataclasses.replace(case, name=f"{case.name} ({layer})")
    for name, words in {"ConvNext": "depthwise", "RegNet": "grouped", "Swin": "windows"}.items():
        model = f"{name}ForImageClassification"
        yield Case("transformers", model, words, made(f"{name}Config", model, {}))
    text = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,
            "num_attention_heads": 2, "vocab_size": 96}
    for model, words in (("CLIPModel", ""), ("SiglipModel", "no class token")):
        sizes = {"vision_config": TOWER, "text_config": text, "projection_dim": 48}
        yield Case("transformers", model, words,
                   made(f"{model[:-5]}Config", model,
                        sizes if words == "" else {k: sizes[k] for k in list(sizes)[:2]}),
                   sparsity="ffn=0.3")
    for model in ("CLIPVisionModelWithProjection", "CLIPVisionModel"):
        yield Case("transformers", model, "",
                   made("CLIPVisionConfig", model, TOWER | {"projection_dim": 48}),
                   sparsity="ffn=0.3")


def open_clip_cases():
    def made(name):
        def build(mlp_ratio=None):
            import open_clip
            config = open_clip.get_model_config(name)
            vision, text = config["vision_cfg"], config["text_cfg"]
            if isinstance(vision["layers"], int):
                vision["layers"] = 2
            text |= {"layers": 1, "vocab_size": 1000, "width": 64, "heads": 1}
            if mlp_ratio is not None:
                vision["mlp_ratio"] = mlp_ratio
            return open_clip.CLIP(config["embed_dim"], vision, text,
                                  quick_gelu=config.get("quick_gelu", False))
        return build

    quick = ("activation=quick_gelu",)
    for name, words, settings in (
            ("ViT-B-32", "", ()), ("ViT-B-32-quickgelu", "", quick), ("ViT-B-16", "", ()),
            ("ViT-L-14", "", ()), ("ViT-H-14", "", ()), ("RN50", "attention that pools", ()),
            ("RN101", "attention that pools", ())):
        yield Case("open_clip", name, words, made(name), settings, "ffn=0.3")


def all_cases():
    for library, cases in (("torchvision", torchvision_cases), ("timm", timm_cases),
                           ("transformers", transformers_cases), ("open_clip", open_clip_cases)):
        try:
            importlib.import_module(library)
        except ImportError:
            print(f"SKIPPED {library}: not installed", file=sys.stderr)
            continue
        yield from cases()


# -- one network --------------------------------------------------------------------------------

def randomise(model, x):
    """Norms away from one and nothing at zero, so that no part of the network is without effect;
    statistics of BatchNorm from a batch of noise, so that the outputs stay in range."""
    for module in model.modules():
        if "Norm" in type(module).__name__ and getattr(module, "weight", None) is not None:
            # Branches of BatchNorm networks stay small, or 152 layers amplify every rounding.
            batch = isinstance(module, torch.nn.BatchNorm2d)
            torch.nn.init.uniform_(module.weight, *((0.1, 0.5) if batch else (0.5, 1.5)))
            if getattr(module, "bias", None) is not None:
                torch.nn.init.normal_(module.bias, std=0.1)
    for parameter in model.parameters():
        if not parameter.detach().any():
            torch.nn.init.normal_(parameter, std=0.02)
    norms = [m for m in model.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    if norms:
        model.train()
        momenta = [m.momentum for m in norms]
        for norm in norms:
            norm.momentum = 1.0
        with torch.no_grad():  # other images, and enough that no variance is nearly zero
            model(torch.randn(32, *x.shape[1:]))
        for norm, momentum in zip(norms, momenta):
            norm.momentum = momentum
    model.eval()


SAVED_AS = {"lm_head.weight": "embed_out.weight"}  # where files have another name than the module


def set_heads(module):
    """Attention takes its number of heads from the widths of its own projections."""
    projections = [getattr(module, name, None) for name in ("out_proj", "o_proj", "c_proj", "dense")]
    last = next((p for p in projections if hasattr(p, "weight")), None)
    size = getattr(module, "head_dim", None) or getattr(module, "head_size", None)
    if last is None or not isinstance(size, int):
        return
    transposed = type(last).__name__ == "Conv1D"
    width = last.weight.shape[0 if transposed else 1]
    for name in ("num_heads", "num_attention_heads"):
        if hasattr(module, name):
            setattr(module, name, width // size)
    keys = getattr(module, "k_proj", None)
    for name in ("num_key_value_heads", "num_kv_heads"):
        if hasattr(module, name) and (keys is not None or name == "num_kv_heads"):
            setattr(module, name, keys.weight.shape[0] // size if keys is not None else
                    (module.query_key_value.weight.shape[0] // size - width // size) // 2)
    for name in ("split_size", "embed_dim", "hidden_size"):
        if transposed and hasattr(module, name):
            setattr(module, name, width)


def fitted(model, state):
    """The network with the tensors of `state` in place of its own, of whatever shape."""
    left = dict(state)
    for name, module in model.named_modules():
        for own in (module._parameters, module._buffers):
            for leaf in own:
                full = f"{name}.{leaf}" if name else leaf
                full = full if full in left else SAVED_AS.get(full, full)
                if full in left:
                    value = left.pop(full)
                    own[leaf] = torch.nn.Parameter(value) if own is module._parameters else value
    assert not left, f"no place for {next(iter(left))}"
    for module in model.modules():
        if type(module).__name__ == "Conv1D":
            module.nf = module.weight.shape[1]
        set_heads(module)
    return model


def difference(found, expected):
    if found.shape != expected.shape:
        return float("inf")
    return float(numpy.abs(found - expected).max() / numpy.abs(expected).max())


class Refusal(Exception):
    pass


class Run:
    """What became of one network."""

    def __init__(self, grail, case, work):
        self.grail, self.case, self.work = grail, case, work
        self.refusal = self.problem = self.verdict = self.note = ""
        self.dense = self.narrow = None

    def command(self, *arguments, **more):
        found = subprocess.run([self.grail, *map(str, arguments)], capture_output=True, text=True,
                               env=os.environ | {"OMP_WAIT_POLICY": "passive"}, **more)
        if found.returncode != 0:
            raise Refusal(found.stderr.strip().removeprefix("grail: "))
        return found.stdout

    def settings(self):
        return [part for setting in self.case.settings for part in ("--set", setting)]

    def output(self, model):
        with torch.no_grad():
            return self.case.adapter.run(model.eval().float(), self.x).numpy()

    def logits(self, path, settings):
        out = self.work / "logits.safetensors"
        out.unlink(missing_ok=True)
        self.command("logits", path, self.kind, self.file, "-o", out, *settings)
        return safetensors.numpy.load_file(str(out))["logits"]

    def side(self, model):
        return self.case.adapter.side(model)

    def make_input(self, model):
        names = getattr(getattr(model, "config", None), "architectures", None) or [""]
        text = type(model).__name__.endswith("ForCausalLM") or "LMHead" in names[0]
        if text:
            ids = numpy.random.default_rng(1).integers(0, 96, (64, 32))
            self.x = torch.from_numpy(ids[:2])
            self.kind, self.file = "--ids", self.work / "ids.npy"
            numpy.save(self.file, ids[:2].astype(numpy.int32))
            self.calibration = [self.work / "calibration.npy", "--context", "32"]
            numpy.save(self.calibration[0], ids.astype(numpy.int32))
        else:
            side = self.side(model)
            self.x = torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(1))
            self.kind, self.file = "--pixels", self.work / "pixels.safetensors"
            pixels = self.x.permute(0, 2, 3, 1).contiguous().numpy()
            safetensors.numpy.save_file({"pixels": pixels}, str(self.file))
            self.calibration = [IMAGES, "--size", side]

    def measure(self):
        torch.manual_seed(0)
        model = self.case.make()
        place = self.work / "stock"
        place.mkdir()
        path = self.case.adapter.save(model, place)
        try:
            self.command("inspect", path, *self.settings())
        except Refusal as refusal:
            self.refusal = str(refusal).replace(f"{path}", path.name)
            return
        self.make_input(model)
        randomise(model, self.x)
        path = self.case.adapter.save(model, place)
        logits, own = self.logits(path, self.settings()), self.output(model)
        self.dense = difference(logits, own)
        if self.dense > TOLERANCE:
            self.weigh(model, logits, own)
        self.compress(path, model)

    def weigh(self, model, logits, own):
        """Whether the network amplifies the library's own rounding as much."""
        with torch.no_grad():
            exact = self.case.adapter.run(model.double(), self.x.double()).numpy()
        model.float()
        mine, its = difference(logits, exact), difference(own, exact)
        if mine <= 2 * its:
            self.note = f"rounding: grail is {mine:.1e} from f64, the library's f32 {its:.1e}"

    def compress(self, path, model):
        out = self.work / "narrow"
        self.command("compress", path, "-o", out, "--calib", *self.calibration, "--samples", "4",
                     "--selector", "wanda", "--compensate", self.case.compensate, "--align", "1",
                     "--sparsity", self.case.sparsity, "--quiet", *self.settings())
        verdict = json.loads((out / "report.json").read_text())["loaders"][0]
        expected = self.logits(out, [])
        if verdict["loads"]:
            narrow = self.case.adapter.load(self.case, out, verdict["reason"])
            self.verdict = "loads"
        else:
            self.check_refusal(out)
            narrow = fitted(model, state_of(out))
            self.verdict = "does not load; modules of these shapes do"
        self.narrow = difference(self.output(narrow), expected)

    def check_refusal(self, out):
        try:
            self.case.make().load_state_dict(state_of(out))
        except RuntimeError:
            return
        raise Refusal("the stock class loads what report.json says it does not")

    def record(self):
        keys = ("refusal", "problem", "verdict", "note", "dense", "narrow")
        return {"library": self.case.library, "name": self.case.name} | {
            key: getattr(self, key) for key in keys}

    def judge(self):
        """What is not as expected."""
        words = self.case.expected
        dense = None if self.note else self.dense
        wrong = max([d for d in (dense, self.narrow) if d is not None], default=0)
        if words:
            return "" if re.search(words, self.refusal) else f"expected a refusal: {words}"
        if self.refusal:
            return "expected to open"
        return "" if wrong <= TOLERANCE else f"differs by more than {TOLERANCE:g}"


class Forward(torch.nn.Module):
    """What the library computes of an image, as a module to export."""

    def __init__(self, case, model):
        super().__init__()
        self.model, self.compute = model, case.adapter.run

    def forward(self, x):
        return self.compute(self.model, x)


class OnnxRun(Run):
    """What became of one network that was exported to ONNX."""

    def side(self, model):
        side = 299 if self.case.name == "inception_v3" else self.case.adapter.side(model)
        return 224 if side == CONVOLUTIONAL_SIDE and self.case.library != "transformers" else side

    def export(self, model):
        path = self.work / "stock.onnx"
        exported = torch.onnx.export(
            Forward(self.case, model.eval().requires_grad_(False)), (self.x,),
            dynamo=True, verbose=False,
            input_names=["pixels"], output_names=["output"],
            dynamic_shapes=({0: torch.export.Dim("N")},))
        exported.save(path)
        return path

    def measure(self):
        torch.manual_seed(0)
        model = self.case.make()
        self.make_input(model)
        randomise(model, self.x)
        path = self.export(model)
        try:
            listed = self.command("inspect", path)
        except Refusal as refusal:
            self.refusal = str(refusal).replace(f"{path}", path.name)
            return
        logits, own = self.logits(path, []), self.output(model)
        self.dense = difference(logits.reshape(own.shape), own)
        if self.dense > TOLERANCE:
            self.weigh(model, logits.reshape(own.shape), own)
        out = self.work / "narrow"
        kinds = ["--sites", "ffn,heads"] if "  heads  " in listed else []
        try:
            self.command("compress", path, "-o", out, "--calib", *self.calibration, "--samples", "4",
                         "--selector", "wanda", "--compensate", "grail", "--align", "1", *kinds,
                         "--sparsity", "0.3", "--quiet", "--preset", "imagenet")
        except Refusal as refusal:
            self.refusal = "opened, but not narrowed: " + str(refusal).replace(f"{path}", path.name)
            return
        report = json.loads((out / "report.json").read_text())
        left = report["narrow"]["parameters"] / report["dense"]["parameters"]
        self.verdict = f"{left:.0%}" + (", with regions" if report.get("regions") else "")
        import onnxruntime
        session = onnxruntime.InferenceSession(str(out / path.name),
                                               providers=["CPUExecutionProvider"])
        theirs = session.run(None, {session.get_inputs()[0].name: self.x.numpy()})[0]
        self.narrow = difference(self.logits(out, []).reshape(theirs.shape), theirs)

    def judge(self):
        dense = None if self.note else self.dense
        wrong = max([d for d in (dense, self.narrow) if d is not None], default=0)
        words = ONNX_REFUSED.get(f"{self.case.library}/{self.case.name}", "")
        if bool(words) != bool(self.refusal) or not re.search(words, self.refusal):
            return f"expected a refusal: {words}" if words else "expected to open"
        return "" if wrong <= TOLERANCE else f"differs by more than {TOLERANCE:g}"


# The networks that are refused as ONNX, too, with words of the sentence.
ONNX_REFUSED = {"timm/resnet50_gn": "no site"}


def run_case(grail, case, kind):
    with tempfile.TemporaryDirectory() as work, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = kind(grail, case, pathlib.Path(work))
        try:
            run.measure()
        except Exception as error:  # whatever it is, it is the finding
            run.problem = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        run.problem = run.problem or run.judge()
    return run


# -- the table ----------------------------------------------------------------------------------

def number(value):
    return "" if value is None else f"{value:.1e}"


def versions():
    names = ("torch", "torchvision", "timm", "transformers", "open_clip_torch")
    found = []
    for name in names:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"without {name}")
    return ", ".join(found)


def cell(text):
    return text.replace("|", "\\|").replace("<", "&lt;")


def table(runs):
    opened = [r for r in runs if not r.refusal]
    refused = [r for r in runs if r.refusal]
    lines = [
        "# Stock checkpoints", "",
        "Networks of random weights, made and saved by their own libraries: what grail opens, and with",
        "which sentence it refuses the others. Decoders, towers of transformers and of open_clip are small",
        "or have few layers; the others have their real size.", "",
        "Command: `tests/loaders/stock.py build/release/bin/grail --output docs/results/stock.md`, with",
        f"{versions()}.", "",
        f"{len(runs)} networks: {len(opened)} opened, {len(refused)} refused, "
        f"{sum(bool(r.problem) for r in runs)} not as expected.", "", "## Opened", "",
        "*dense*: the largest difference between `grail logits` and the library's own forward pass in f32,",
        "relative to the largest output. *narrow*: the same after `grail compress --selector wanda` with the",
        "compensation named has removed the share named. *stock class*: what report.json says of the",
        "library's own class. Where it loads the result, it computed the last column; where it does not, it",
        "was seen to refuse the tensors, and the same network with modules of their shapes computed it.", "",
        "| library | network | dense | removed | compensation | stock class | narrow | |",
        "|---|---|---|---|---|---|---|---|"]
    for r in opened:
        setting = "".join(f" `--set {s}`" for s in r.case.settings)
        lines.append(f"| {r.case.library} | {r.case.name}{setting} | {number(r.dense)} | "
                     f"{r.case.sparsity} | {r.case.compensate} | {r.verdict} | "
                     f"{number(r.narrow)} | {cell(r.problem or r.note)} |")
    lines += ["", "## Refused", "", "| library | network | sentence |",
              "|---|---|---|"]
    for r in refused:
        note = f" **{r.problem}**" if r.problem else ""
        lines.append(f"| {r.case.library} | {r.case.name} | {cell(r.refusal)}{cell(note)} |")
    return "\n".join(lines) + "\n"


def onnx_table(runs):
    opened = [r for r in runs if not r.refusal and not r.problem]
    left = [r for r in runs if r.refusal or r.problem]
    lines = [
        ONNX_HEADING, "",
        "The image networks that are refused above by their weights alone, exported to ONNX by PyTorch",
        "(its dynamo exporter; images of 224 x 224, or of the size that the network states) and opened as",
        "such. Command: `tests/loaders/stock.py build/release/bin/grail --onnx --output",
        f"docs/results/stock.md`, with {versions()}, onnxruntime",
        f"{importlib.metadata.version('onnxruntime')}.", "",
        f"{len(runs)} networks: {len(opened)} opened and narrowed, {len(left)} not.", "",
        "*dense*: `grail logits` of the exported file against the library's own forward pass in f32.",
        "*parameters*: how many are left when `grail compress --selector wanda --compensate grail` has",
        "removed 30 % of the channels, or of neurons and heads where the network has attention. *narrow*:",
        "ONNX Runtime against `grail logits`, both of the result. Relative to the largest output.",
        "Where 100 % are left, the sites that are cut usually hold next to nothing.", "",
        "| library | network | dense | parameters | narrow | |", "|---|---|---|---|---|---|"]
    for r in opened:
        lines.append(f"| {r.case.library} | {r.case.name} | {number(r.dense)} | {r.verdict} | "
                     f"{number(r.narrow)} | {cell(r.note)} |")
    if left:
        lines += ["", "| library | not opened | sentence |", "|---|---|---|"]
    for r in left:
        lines.append(f"| {r.case.library} | {r.case.name} | {cell(r.refusal or r.problem)} |")
    return "\n".join(lines) + "\n"


def with_part(path, text, onnx):
    """The file with its part before or behind ONNX_HEADING replaced."""
    before, heading, behind = (path.read_text() if path.exists() else "").partition(ONNX_HEADING)
    if onnx:
        return before.rstrip() + "\n\n" + text
    return text + ("\n" + heading + behind if heading else "")


def is_image(case):
    return not re.search(r"For(CausalLM|MaskedLM|ConditionalGeneration)|LMHead", case.name)


def read_records(path):
    lines = path.read_text().splitlines() if path and path.exists() else []
    return {(r["library"], r["name"]): r for r in map(json.loads, lines)}


def run_or_recall(options, case, finished):
    known = finished.get((case.library, case.name))
    kind = OnnxRun if options.onnx else Run
    if known is not None:
        run = kind(options.grail, case, None)
        vars(run).update({key: known[key] for key in known if key not in ("library", "name")})
        return run
    run = run_case(os.path.abspath(options.grail), case, kind)
    if options.records:
        with options.records.open("a") as lines:
            lines.write(json.dumps(run.record()) + "\n")
    print(f"{'FAIL' if run.problem else 'ok'} {case.library}/{case.name} {number(run.dense)} "
          f"{run.verdict} {number(run.narrow)} {run.problem or run.refusal}", flush=True)
    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("grail")
    parser.add_argument("--onnx", action="store_true",
                        help="the image networks that are refused by their weights, through ONNX")
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--records", type=pathlib.Path,
                        help="lines of finished networks, which are not run again")
    parser.add_argument("--only", default="", help="a regular expression for LIBRARY/NAME")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    options = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    cases = [c for c in all_cases() if re.search(options.only, f"{c.library}/{c.name}")]
    if options.onnx:
        cases = [c for c in cases if c.expected and is_image(c)]
    if options.list:
        print(*(f"{c.library}/{c.name}" for c in cases), sep="\n")
        return
    runs = []
    finished = read_records(options.records)
    for case in cases:
        runs.append(run_or_recall(options, case, finished))
    if options.output:
        text = onnx_table(runs) if options.onnx else table(runs)
        options.output.write_text(with_part(options.output, text, options.onnx))
    sys.exit(any(run.problem for run in runs))


if __name__ == "__main__":
    main()
