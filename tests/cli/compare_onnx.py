"""Compares all outputs of an ONNX file that ONNX Runtime computes with those that grail logits wrote, to 1e-5 of the
largest value, or of 1 where all are smaller. An output "probabilities" is the softmax of logits.

usage: compare_onnx.py MODEL PIXELS.safetensors LOGITS.safetensors
"""
import sys

import numpy
import onnxruntime

from onnx_maker import read_tensors

session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
pixels = read_tensors(sys.argv[2])["pixels"]
shape = session.get_inputs()[0].shape
if shape[-1] != pixels.shape[-1]:  # else the file reads channels last, too
    pixels = numpy.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
pixels = pixels[..., 0] if len(shape) == 3 else pixels
written = read_tensors(sys.argv[3])
for output, theirs in zip(session.get_outputs(), session.run(None, {"pixels": pixels})):
    ours = next(iter(written.values())) if len(session.get_outputs()) == 1 else written[output.name]
    if theirs.ndim == 3:  # positions are a map of one column or row
        ours = ours.reshape(len(ours), -1, ours.shape[-1])
        ours = ours if ours.shape == theirs.shape else ours.transpose(0, 2, 1)
    elif ours.ndim == 4:  # channels last, as the pixels
        ours = ours.transpose(0, 3, 1, 2)
    if output.name == "probabilities":
        axis = 1 if ours.ndim == 4 else -1
        ours = numpy.exp(ours - ours.max(axis, keepdims=True))
        ours /= ours.sum(axis, keepdims=True)
    if ours.size == theirs.size and 1 in theirs.shape[1:]:  # a single position has no place in an order
        ours = ours.reshape(theirs.shape)
    difference = abs(theirs - ours).max() / max(1, abs(theirs).max())
    if not difference < 1e-5:
        sys.exit(f"{sys.argv[1]}: {output.name} differs by {difference}")
