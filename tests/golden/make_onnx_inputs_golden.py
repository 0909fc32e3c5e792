#!/usr/bin/env python3
"""Small networks of several inputs as torch exports them, and their outputs from ONNX Runtime: writes NAME.onnx and
NAME.safetensors into inputs beside this script. Encoders of transformers read ids, masks with padding and types (BERT
traced at operator set 14, DistilBERT by the newer exporter, RoBERTa, whose positions are counted from its ids; MPNet, whose scores depend on distances, which no row of grail
reads); siamese
and detector read images of two sizes, and an image with sizes beside it; records and clip integers beside floats.

Needs torch, transformers, onnx, onnxscript and onnxruntime.

usage: make_onnx_inputs_golden.py
"""
import pathlib
import warnings

import numpy
import onnx
import onnxruntime
import torch
import transformers
from torch import nn

from golden_file import write_safetensors

FOLDER = pathlib.Path(__file__).parent / "inputs"
SAMPLES, POSITIONS, WORDS = 5, 9, 41
SIZES = {"vocab_size": WORDS, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 24, "max_position_embeddings": 16}
DISTIL = {"vocab_size": WORDS, "dim": 16, "n_layers": 2, "n_heads": 4, "hidden_dim": 24, "max_position_embeddings": 12}


class Encoder(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder
        for parameter in encoder.parameters():
            scale = 0.1 if parameter.dim() == 1 else 0.3
            parameter.data.add_(torch.randn_like(parameter) * scale)

    def forward(self, input_ids, attention_mask, token_type_ids=None):
        given = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        return tuple(self.encoder(input_ids=input_ids, attention_mask=attention_mask, **given).values())


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.template = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 12, 3, stride=2), nn.ReLU(),
                                      nn.Conv2d(12, 6, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.search = nn.Sequential(nn.Conv2d(3, 10, 3, stride=2), nn.ReLU(), nn.Conv2d(10, 6, 3),
                                    nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 3))

    def forward(self, template, search):
        return self.head(torch.cat([self.template(template), self.search(search)], 1))


class Detector(nn.Module):
    """Sizes scale what the image makes, which no row of grail reads."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 16, 3, stride=2), nn.ReLU(),
                                  nn.Conv2d(16, 6, 1))

    def forward(self, image, scale_factor, im_shape):
        maps = self.body(image)
        boxes = maps.flatten(2).transpose(1, 2)[:, :, :4] * im_shape[:, None, :1]
        return torch.minimum(boxes, im_shape[:, None, :1]) / torch.cat([scale_factor] * 2, 1)[:, None], maps


class Records(nn.Module):
    """Integers that choose rows of tables, and others that are numbers, beside an image, a signal and frames."""

    def __init__(self):
        super().__init__()
        self.words, self.kinds = nn.Embedding(WORDS, 12), nn.Embedding(5, 6)
        self.mix = nn.Sequential(nn.Linear(12, 20), nn.ReLU(), nn.Linear(20, 12))
        self.image = nn.Sequential(nn.Conv2d(3, 10, 3), nn.ReLU(), nn.Conv2d(10, 6, 3))
        self.signal = nn.Sequential(nn.Conv1d(4, 10, 3), nn.ReLU(), nn.Conv1d(10, 6, 3))
        self.frames = nn.Sequential(nn.Linear(7, 16), nn.ReLU(), nn.Linear(16, 8))
        self.box = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 4))
        self.head = nn.Sequential(nn.Linear(42, 16), nn.ReLU(), nn.Linear(16, 3))

    def forward(self, image, words, kind, signal, frames, box):
        text = self.words(words)
        text = text + self.mix(text)
        parts = [self.image(image).mean((2, 3)), text.mean(1), self.kinds(kind), self.signal(signal).mean(2),
                 self.frames(frames).mean(1), self.box(box.float() / 16)]
        return self.head(torch.cat(parts, 1))


class Clip(nn.Module):
    def __init__(self, clip):
        super().__init__()
        self.clip = clip
        for parameter in clip.parameters():
            parameter.data.add_(torch.randn_like(parameter) * (0.1 if parameter.dim() == 1 else 0.3))

    def forward(self, input_ids, pixel_values, attention_mask):
        made = self.clip(input_ids=input_ids, pixel_values=pixel_values, attention_mask=attention_mask)
        return made.text_embeds, made.image_embeds, made.logits_per_image


def write(name, module, inputs, outputs, dynamo=False, free=(0,)):
    """The network, which any number of samples (and of positions) can be given to, and its outputs."""
    path = FOLDER / f"{name}.onnx"
    names = list(inputs)
    values = tuple(torch.from_numpy(value) for value in inputs.values())
    kinds = {0: "samples", 1: "positions"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if dynamo:
            sizes = {0: torch.export.Dim("samples"), 1: torch.export.Dim("positions", min=2, max=12)}
            torch.onnx.export(module.eval(), values, str(path), dynamo=True, verbose=False, external_data=False,
                              input_names=names, output_names=outputs,
                              dynamic_shapes=tuple({k: sizes[k] for k in free} for _ in names))
        else:
            torch.onnx.export(module.eval(), values, str(path), dynamo=False, opset_version=14, input_names=names,
                              output_names=outputs,
                              dynamic_axes={one: {k: kinds[k] for k in free if one in names or k == 0}
                                            for one in names + outputs})
    model = onnx.load(str(path))  # without where each node comes from
    for one in [model, model.graph, *model.graph.node, *model.graph.input, *model.graph.output, *model.graph.value_info]:
        one.ClearField("metadata_props")
        one.ClearField("doc_string")
    onnx.save(model, str(path))
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    made = dict(zip(outputs, session.run(outputs, inputs)))
    tensors = {**inputs, **made}
    if len(free) == 1:  # all inputs of a sample side by side, as grail reads them
        rows = [v.transpose(0, 2, 3, 1) if v.ndim == 4 else v.transpose(0, 2, 1) if k == "signal" else v
                for k, v in inputs.items()]
        tensors = {"pixels": numpy.concatenate([v.reshape(len(v), 1, 1, -1) for v in rows], 3),
                   **{k: v.transpose(0, 2, 3, 1) if v.ndim == 4 else v for k, v in made.items()}}
    write_safetensors(FOLDER / f"{name}.safetensors", {k: v.astype(numpy.float32) for k, v in tensors.items()},
                      {"torch": torch.__version__, "transformers": transformers.__version__,
                       "onnxruntime": onnxruntime.__version__})


def main():
    FOLDER.mkdir(exist_ok=True)
    torch.manual_seed(0)
    random = numpy.random.default_rng(0)
    lengths = numpy.array([9, 4, 9, 6, 1])
    mask = (numpy.arange(POSITIONS) < lengths[:, None]).astype(numpy.int64)
    ids = numpy.where(mask, random.integers(2, WORDS, mask.shape), 1)
    types = random.integers(0, 2, mask.shape)
    both = {"input_ids": ids, "attention_mask": mask}
    write("bert", Encoder(transformers.BertModel(transformers.BertConfig(**SIZES))), {**both, "token_type_ids": types},
          ["states", "pooled"], free=(0, 1))
    write("distilbert", Encoder(transformers.DistilBertModel(transformers.DistilBertConfig(**DISTIL))), both, ["states"],
          dynamo=True, free=(0, 1))
    roberta = transformers.RobertaConfig(**SIZES, type_vocab_size=1, pad_token_id=1)
    write("roberta", Encoder(transformers.RobertaModel(roberta, add_pooling_layer=False)), both, ["states"], free=(0, 1))

    distances = transformers.MPNetConfig(**{**SIZES, "num_hidden_layers": 1}, pad_token_id=1, attn_implementation="eager")
    mpnet = transformers.MPNetModel(distances, add_pooling_layer=False)
    write("mpnet", Encoder(mpnet), both, ["states"], free=(0, 1))

    def normal(*shape):
        return random.normal(size=shape).astype(numpy.float32)

    write("siamese", Siamese(), {"template": normal(4, 3, 12, 12), "search": normal(4, 3, 17, 13)}, ["scores"])
    sizes = {name: random.uniform(*of, (4, 2)).astype(numpy.float32)
             for name, of in (("scale_factor", (0.5, 2)), ("im_shape", (10, 20)))}
    write("detector", Detector(), {"image": normal(4, 3, 14, 14), **sizes}, ["boxes", "maps"])

    of_records = {"image": normal(4, 3, 8, 8), "words": random.integers(0, WORDS, (4, 5)),
                  "kind": random.integers(0, 5, 4).astype(numpy.int32), "signal": normal(4, 4, 11),
                  "frames": normal(4, 6, 7), "box": random.integers(-20, 300, (4, 2))}
    write("records", Records(), of_records, ["scores"])
    tower = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 4, "projection_dim": 10}
    towers = transformers.CLIPConfig(
        text_config={**tower, "vocab_size": WORDS, "max_position_embeddings": POSITIONS, "eos_token_id": WORDS - 1,
                     "bos_token_id": 0, "pad_token_id": 1},
        vision_config={**tower, "image_size": 16, "patch_size": 8}, projection_dim=10, attn_implementation="eager")
    ids[numpy.arange(len(ids)), lengths - 1] = WORDS - 1
    write("clip", Clip(transformers.CLIPModel(towers)),
          {"input_ids": ids, "pixel_values": normal(5, 3, 16, 16), "attention_mask": mask},
          ["text_embeds", "image_embeds", "logits_per_image"])


if __name__ == "__main__":
    main()
