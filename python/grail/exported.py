"""Live modules of torch that are of no family that grail knows, by way of an ONNX file."""

from __future__ import annotations

import copy
import dataclasses
import math
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from . import run
from .arrays import view
from .errors import ArgumentError, GrailError, UnsupportedError, warn
from .model import Model
from .result import Result
from .runner import Runner
from .samples import Samples
from .surgery import resized, tensors_of

_AGREEMENT = 1e-4  # of the narrow module and the narrow file, relative to the largest output
_RESEMBLANCE = 1e-2  # the same of dense ones, where another activation makes a tenth or more
_EXAMPLES = 4  # images that are exported and compared with
_HOOKS = (
    *("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"),
    *("_forward_hooks_with_kwargs", "_forward_pre_hooks_with_kwargs"),
    "_forward_hooks_always_called",
)


def compress(
    module: nn.Module, samples: Any, settings: Mapping[str, Any], options: Mapping[str, Any]
) -> tuple[Any, run.Report, float | None]:
    """A narrowed copy of the module, what the run did, and how far the copy's outputs are from what
    grail computes; of a dry run only the second.

    The module is exported to a temporary directory, where the library narrows that file. The
    tensors of the result are put into the copy, which must then compute what grail computes."""
    name = type(module).__name__
    pixels = _examples(samples)
    dense = _plain(module, pixels)
    with tempfile.TemporaryDirectory(prefix="grail-") as folder, _without_folder(folder):
        path = Path(folder, f"{name}.onnx")
        _export(dense, pixels, path)
        try:
            model = Model(path, set=settings)
        except GrailError as error:
            raise UnsupportedError(error.message) from error
        model.path = path.name
        report = run.compress(model, f"{folder}/narrow", calib=samples, **options)
        if report.output is None:
            return None, report, None
        file = report.output / path.name
        tensors = _changed(dense, _read(path), _read(file))
        trial, reason = resized(dense, tensors, report.sites)
        if trial is None:
            raise UnsupportedError(f"the narrow tensors do not fit into a {name}: {reason}")
        difference = _difference(trial, _expected(file, dense, pixels, settings, options), pixels)
        made, _ = resized(module, tensors, report.sites)
        result = _Written(made, report.output, name)
    report = dataclasses.replace(report, output=None, result=result, loaders=())  # of the file
    return made, report, difference


def computes(module: nn.Module, model: Model, samples: Any) -> bool:
    """Whether a module computes what grail does of its tensors, of pixels in memory. A module whose
    tensors are named as a family's may still be another one."""
    try:
        pixels = _examples(samples)
        expected = [torch.from_numpy(Runner(model).images(pixels))]
        made = _outputs(_plain(module, pixels), pixels)
    except Exception:  # what was asked for says why, or does not need it
        return True
    shapes = [one.shape for one in made]
    return shapes != [expected[0].shape] or _apart(expected, made) <= _RESEMBLANCE


class _Written(Result):
    """The tensors of a narrow module, and the documents of a directory that goes."""

    def __init__(self, module: nn.Module, folder: Path, name: str) -> None:
        self._name = name
        self._arrays = {
            key: view(tensor.detach().clone(), key) for key, tensor in module.state_dict().items()
        }
        self.dtypes = {key: array.dtype for key, array in self._arrays.items()}
        self.documents = {
            file.name: file.read_bytes()
            for file in folder.iterdir()
            if not file.name.startswith(f"{name}.onnx")
        }

    def __getitem__(self, name: str) -> Any:
        return np.array(self._arrays[name].values)

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __repr__(self) -> str:
        return f"grail.Result({len(self)} tensors of {self._name})"

    def model(self) -> Model:
        raise UnsupportedError(
            f"{self._name} was narrowed as an ONNX file, which is gone; export the narrow module "
            "to go on"
        )


@contextmanager
def _without_folder(folder: str) -> Iterator[None]:
    """Messages name files in it by their names alone."""
    try:
        yield
    except GrailError as error:
        error.message = error.message.replace(f"{folder}/", "")
        raise


def _examples(samples: Any) -> Any:
    """Some of the samples, [images, channels, height, width], [signals, channels, length] or
    [samples, channels]; two at least, since a batch of one is a case by itself for the exporter; a
    mapping of such arrays where there are several inputs."""
    if isinstance(samples, Samples) and samples.named:
        return {
            name: torch.from_numpy(np.array(one[:_EXAMPLES] if len(one) > 1 else one.repeat(2, 0)))
            for name, one in samples.named.items()
        }
    held = samples._keep if isinstance(samples, Samples) else []
    images = next((one for one in held if isinstance(one, np.ndarray) and one.ndim == 4), None)
    if images is None:
        raise ArgumentError(
            "it takes samples in memory, which are prepared pixels [images, 3, side, side]",
            ("samples",),
        )
    if not samples._memory.channels_first:
        images = images.transpose(0, 3, 1, 2)
    some = images[:_EXAMPLES] if len(images) > 1 else images.repeat(2, 0)
    return torch.from_numpy(np.array(some))


def _plain(module: nn.Module, pixels: Any) -> nn.Module:
    """A copy in f32, as it is used, without hooks, which may watch but not change what it gives."""
    try:
        dense = copy.deepcopy(module).float().eval().requires_grad_(False)
    except Exception as failure:
        raise UnsupportedError(f"copy.deepcopy() does not copy it: {failure}") from failure
    layers = [layer for layer in dense.modules() if any(getattr(layer, k, 0) for k in _HOOKS[:2])]
    before = _outputs(dense, pixels) if layers else None
    for layer in dense.modules():
        for key in _HOOKS:
            if getattr(layer, key, None):
                setattr(layer, key, type(getattr(layer, key))())
    if before is not None and not _apart(before, _outputs(dense, pixels)) <= _AGREEMENT:
        kinds = ", ".join(sorted({type(layer).__name__ for layer in layers}))
        raise UnsupportedError(f"its hooks would change what it computes, those of {kinds}")
    return dense


def _outputs(module: nn.Module, pixels: Any) -> list[Any]:
    with torch.no_grad():
        return tensors_of(module(**pixels) if isinstance(pixels, Mapping) else module(pixels))


def _export(dense: nn.Module, pixels: Any, path: Path) -> None:
    try:
        import onnxscript  # noqa: F401
    except ImportError as missing:
        raise UnsupportedError(
            f"PyTorch exports it by onnx and onnxscript, and {missing}; pip install onnx onnxscript"
        ) from missing
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            some = torch.export.Dim("samples")
            several = isinstance(pixels, Mapping)
            program = torch.onnx.export(
                dense,
                () if several else (pixels,),
                kwargs=dict(pixels) if several else None,
                dynamo=True,
                verbose=False,
                optimize=False,
                input_names=list(pixels) if several else ["pixels"],
                output_names=None if several else ["outputs"],
                dynamic_shapes={name: {0: some} for name in pixels} if several else ({0: some},),
            )
            _fold(program, _own(dense))
    except Exception as failure:
        raise UnsupportedError(
            f"torch.onnx.export cannot export it: {_reason(failure)}"
        ) from failure
    program.save(str(path))


def _fold(program: Any, own: Mapping[str, Any]) -> None:
    """Folds what is constant. Parameters and buffers are inputs meanwhile, and so keep their names
    and values: no batch norm goes into a convolution, no equal ones become one, none is transposed
    and no bias of zeros left out."""
    graph = program.model.graph
    count = len(graph.inputs)
    values = {one: one.const_value for name, one in graph.initializers.items() if name in own}
    graph.inputs.extend(values)
    for one in values:
        graph.initializers.pop(one.name)
        one.const_value = None
    program.optimize()
    del graph.inputs[count:]
    for one, value in values.items():
        one.const_value = value
        graph.register_initializer(one)


def _reason(failure: BaseException) -> str:
    """The first line of what was the matter in the end."""
    while failure.__cause__ is not None:
        failure = failure.__cause__
    lines = str(failure).strip().splitlines()
    return f"{type(failure).__name__}: {lines[0] if lines else ''}"


def _own(dense: nn.Module) -> dict[str, Any]:
    """Parameters and buffers by all of their names."""
    own = dict(dense.named_parameters(remove_duplicate=False))
    return {**own, **dict(dense.named_buffers(remove_duplicate=False))}


def _read(path: Path) -> dict[str, Any]:
    import onnx

    graph = onnx.load(str(path)).graph
    return {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}


def _changed(
    dense: nn.Module, before: Mapping[str, Any], after: Mapping[str, Any]
) -> dict[str, Any]:
    """The tensors of the module that the run has changed."""
    own = _own(dense)
    names: dict[int, list[str]] = {}
    for name, tensor in own.items():
        names.setdefault(id(tensor), []).append(name)
    # What several nodes read may be in the file once for each, "name.2" and so on.
    origins = {name: before.get(name, before.get(name.rpartition(".")[0])) for name in after}
    changed = {
        name: np.array(array)  # those of onnx cannot be written to
        for name, array in after.items()
        if origins[name] is None or not np.array_equal(array, origins[name])
    }
    for name, array in list(changed.items()):
        if name not in own:
            # A constant of the graph: sizes, or a value that is the same for all channels.
            origin = origins[name]
            first = name.rpartition(".")[0]
            if first in own:
                raise UnsupportedError(
                    f"its '{first}' is used more than once, and would be another tensor in each use"
                )
            values = {*array.flat, *np.asarray(np.nan if origin is None else origin).flat}
            if array.dtype.kind == "f" and len(values) != 1:
                raise UnsupportedError(f"what is changed is no tensor of the module: '{name}'")
            del changed[name]
        elif len(names[id(own[name])]) > 1:
            first, second, *_ = names[id(own[name])]
            raise UnsupportedError(f"its '{first}' is also '{second}'")
    unused = [
        name
        for name, tensor in own.items()
        if tensor.is_floating_point() and not before.keys() & {*names[id(tensor)]}
    ]
    if unused and changed:
        warn(f"inference does not use '{unused[0]}', one of {len(unused)} tensors that stay")
    return changed


def _expected(
    file: Path,
    dense: nn.Module,
    pixels: Any,
    settings: Mapping[str, Any],
    options: Mapping[str, Any],
) -> list[Any]:
    """What the narrow file computes: one row for each image as grail does, anything else by ONNX
    Runtime, or without it by the project of ONNX itself."""
    several = isinstance(pixels, Mapping)
    if not several and [one.ndim for one in _outputs(dense, pixels)] == [2]:
        narrow = Runner(Model(file, set=settings), threads=options.get("threads"))
        return [torch.from_numpy(narrow.images(pixels))]
    given = pixels if several else {"pixels": pixels}
    arrays = {name: one.numpy() for name, one in given.items()}
    try:
        import onnxruntime

        made = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    except ImportError:
        from onnx.reference import ReferenceEvaluator

        made = ReferenceEvaluator(str(file))
    return [torch.from_numpy(np.array(one)) for one in made.run(None, arrays)]


def _difference(trial: nn.Module, expected: list[Any], pixels: Any) -> float:
    """What is put together must compute what the library has made."""
    why = "its code may have a width that its layers do not say"
    try:
        made = _outputs(trial, pixels)
    except Exception as failure:
        reason = str(failure).splitlines()[0]
        raise UnsupportedError(f"it does not run with narrow layers: {reason}; {why}") from failure
    found = _apart(expected, made)
    if not found <= _AGREEMENT:
        raise UnsupportedError(
            f"it computes with narrow layers what is {found:.1e} of the largest output from what "
            f"grail computes; {why}"
        )
    return found


def _apart(expected: list[Any], made: list[Any]) -> float:
    """The largest difference of all outputs, relative to the largest value of each."""
    apart = 0.0
    for theirs, ours in zip(expected, made, strict=True):
        largest = theirs.double().abs().max()
        difference = (theirs.double() - ours.double().reshape(theirs.shape)).abs().max()
        found = float(difference / largest if largest != 0 else difference)
        if not math.isfinite(found):
            return math.inf
        apart = max(apart, found)
    return apart
