"""Live modules of torch that are of no family that grail knows, by way of an ONNX file."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import math
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.utils import parametrize
from torch.nn.utils.spectral_norm import SpectralNorm, remove_spectral_norm
from torch.nn.utils.weight_norm import WeightNorm, remove_weight_norm
from torch.overrides import TorchFunctionMode

from . import run
from .arrays import view
from .errors import ArgumentError, GrailError, UnsupportedError, warn
from .model import Model
from .result import Result
from .runner import Runner
from .samples import Samples
from .surgery import put, resized, set_counts, tensors_of

_AGREEMENT = 1e-4  # of the narrow module and the narrow file, relative to the largest output
_RESEMBLANCE = 1e-2  # the same of dense ones, where another activation makes a tenth or more
_MOVES = {
    *("Identity", "Transpose", "Split", "Slice", "Gather", "GatherND", "Reshape", "Squeeze"),
    "Unsqueeze",
}
# By what attributes code counts heads, and the features of all of them.
_HEADS = ("num_heads", "num_attention_heads", "num_key_value_heads", "n_heads", "n_head")
_WIDTHS = ("all_head_size", "attn_dim", "inner_dim", "split_size", "embed_dim")
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
        tensors = _changed(dense, path, _read(file))
        expected = _expected(file, dense, pixels, settings, options)
        counts, difference = _counts_that_run(dense, tensors, report.sites, expected, pixels)
        made = _cut(_with_plain_weights(module, dense, tensors), tensors, report.sites, counts)
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


def fitted(
    module: nn.Module, result: Result, names: Mapping[str, str], sites: Any
) -> tuple[Any, float]:
    """A copy of a module with the tensors of a result, some by other names. Its code must run with
    their widths and compute what grail does; how far it is from that."""
    model = result.model()
    runner = Runner(model)
    generator = torch.Generator().manual_seed(1)
    examples: dict[str, Any]
    if model.facts.reads_images:
        shape = (_EXAMPLES, model.facts.channels, model.facts.image_side, model.facts.image_width)
        pixels = torch.randn(shape, generator=generator)
        expected = torch.from_numpy(runner.images(pixels))
        examples = {next(iter(inspect.signature(module.forward).parameters)): pixels}
    else:  # of the upper half, where no padding is
        words, length = model.facts.vocabulary, min(16, model.facts.context or 16)
        ids = torch.randint(words // 2, words, (_EXAMPLES, length), generator=generator)
        expected = torch.from_numpy(runner.logits(ids.numpy()))
        examples = {"input_ids": ids}
        if model.facts.gives_features:  # behind which the module may have a head
            examples["output_hidden_states"] = True
    tensors = {names.get(name, name): tensor for name, tensor in result.torch().items()}
    dense = _copy(module).float().eval()
    counts, apart = _counts_that_run(dense, tensors, sites, [expected], examples)
    return _cut(module, tensors, sites, counts), apart


def _cut(module: nn.Module, tensors: Mapping[str, Any], sites: Any, counts: Sequence[str]) -> Any:
    made, reason = resized(module, tensors, sites, compared=True)
    if made is None:
        kind = type(module).__name__
        raise UnsupportedError(f"the narrow tensors do not fit into a {kind}: {reason}")
    set_counts(module, made, counts)
    if hasattr(made, "tie_weights"):
        made.tie_weights()
    return made


def _counts_that_run(
    dense: nn.Module, tensors: Mapping[str, Any], sites: Any, expected: list[Any], examples: Any
) -> tuple[tuple[str, ...], float]:
    """The attributes by which the code counts what is gone, none where it asks the layers: with
    these set a copy must compute what is expected. How far it is from that."""
    failure: UnsupportedError | None = None
    for counts in ((), _HEADS, (*_HEADS, *_WIDTHS)):
        trial = _cut(dense, tensors, sites, counts)  # or no counts help
        try:
            return counts, _difference(trial, expected, examples)
        except UnsupportedError as error:
            failure = failure or error
    assert failure is not None
    raise failure


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
            "it takes samples in memory, which are prepared pixels [images, 3, side, side], or "
            "windows of token ids of one length",
            ("samples",),
        )
    if not samples._memory.channels_first:
        images = images.transpose(0, 3, 1, 2)
    some = images[:_EXAMPLES] if len(images) > 1 else images.repeat(2, 0)
    return torch.from_numpy(np.array(some))


def _plain(module: nn.Module, pixels: Any) -> nn.Module:
    """A copy in f32, as it is used, without hooks, which may watch but not change what it gives,
    and with weights that layers compute of other parameters as parameters."""
    dense = _copy(module).float().eval().requires_grad_(False)
    layers = [layer for layer in dense.modules() if any(getattr(layer, k, 0) for k in _HOOKS[:2])]
    convolutions = _computing(dense)
    before = _outputs(dense, pixels) if layers or convolutions else None
    if convolutions:
        _make_plain(dense, convolutions, pixels)
    for layer in dense.modules():
        _release(layer)
        for key in _HOOKS:
            if getattr(layer, key, None):
                setattr(layer, key, type(getattr(layer, key))())
    if before is not None and not _apart(before, _outputs(dense, pixels)) <= _AGREEMENT:
        kinds = ", ".join(sorted({type(layer).__name__ for layer in [*layers, *convolutions]}))
        what = "hooks, or the code of its own convolutions" if convolutions else "hooks"
        raise UnsupportedError(f"its {what} would change what it computes, those of {kinds}")
    return dense


def _copy(module: nn.Module) -> Any:
    """What a layer computed last may have a graph, which is not copied."""
    values = [value for layer in module.modules() for value in vars(layer).values()]
    computed = [one for one in values if isinstance(one, torch.Tensor) and not one.is_leaf]
    made = {id(one): one.detach().clone() for one in computed}
    try:
        return copy.deepcopy(module, made)
    except Exception as failure:
        raise UnsupportedError(f"copy.deepcopy() does not copy it: {failure}") from failure


def _computed(layer: nn.Module) -> list[str]:
    """What a layer computes of other tensors, by parametrizations or the hooks before them."""
    hooks = (WeightNorm, SpectralNorm)
    named = [hook.name for hook in layer._forward_pre_hooks.values() if isinstance(hook, hooks)]
    return [*named, *(layer.parametrizations if parametrize.is_parametrized(layer) else ())]


def _release(layer: nn.Module) -> None:
    """Has what it computes of others as a parameter. What torch takes away of a class that it made
    for parametrizations, copies of the layer would lack, too."""
    for hook in list(layer._forward_pre_hooks.values()):
        if isinstance(hook, WeightNorm):
            remove_weight_norm(layer, hook.name)
        elif isinstance(hook, SpectralNorm):
            remove_spectral_norm(layer, hook.name)
    if parametrize.is_parametrized(layer):
        lists = layer._modules["parametrizations"]
        values = {name: getattr(layer, name).detach() for name in lists}
        layer.__class__ = type(layer).__bases__[0]
        del layer._modules["parametrizations"]
        for name, value in values.items():
            trains = any(one.requires_grad for one in lists[name].parameters())
            layer.register_parameter(name, nn.Parameter(value, requires_grad=trains))


def _computing(dense: nn.Module) -> list[nn.Conv2d]:
    """Convolutions whose own code may make a weight of theirs another one."""
    return [
        layer
        for layer in dense.modules()
        if isinstance(layer, nn.Conv2d) and type(layer).forward is not nn.Conv2d.forward
    ]


class _Convolutions(TorchFunctionMode):  # type: ignore[misc]
    """What is convolved."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, ...]] = []  # all but the images

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.conv2d and len(args) > 1 and not kwargs:
            self.calls.append(args[1:])
        return func(*args, **(kwargs or {}))


def _make_plain(dense: nn.Module, layers: list[nn.Conv2d], pixels: Any) -> None:
    """Puts Conv2d in place of those that convolve once, with another weight than their own."""
    calls: dict[int, list[tuple[Any, ...]]] = {id(layer): [] for layer in layers}
    mode = _Convolutions()

    def begin(layer: nn.Module, inputs: Any) -> None:
        mode.calls = calls[id(layer)]

    def end(layer: nn.Module, inputs: Any, output: Any) -> None:
        mode.calls = []

    hooks = [
        hook
        for layer in layers
        for hook in (layer.register_forward_pre_hook(begin), layer.register_forward_hook(end))
    ]
    with mode:
        _outputs(dense, pixels)
    for hook in hooks:
        hook.remove()
    for name, layer in list(dense.named_modules()):
        called = calls.get(id(layer), [])
        if len(called) == 1 and called[0][0] is not layer.weight and name:
            put(dense, name, _convolution(*called[0]))


def _convolution(
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> nn.Conv2d:
    outputs, inputs, *kernel = weight.shape
    made = nn.Conv2d(inputs * groups, outputs, kernel, stride, padding, dilation, groups)
    made.weight = nn.Parameter(weight.detach().clone())
    made.bias = None if bias is None else nn.Parameter(bias.detach().clone())
    return made.eval().requires_grad_(False)


def _with_plain_weights(
    module: nn.Module, dense: nn.Module, tensors: Mapping[str, Any]
) -> nn.Module:
    """A copy in which layers have as parameters what they computed of others and is changed."""
    made = _copy(module)
    plain = dict(dense.named_modules())
    released: list[str] = []
    for name, layer in list(made.named_modules()):
        dot = name + "." * bool(name)
        if any(dot + own in tensors for own in _computed(layer)):
            _release(layer)
        elif isinstance(layer, nn.Conv2d) and type(plain[name]) is not type(layer):
            if dot + "weight" not in tensors:
                continue
            put(made, name, copy.deepcopy(plain[name]).to(layer.weight).train(layer.training))
            made.get_submodule(name).requires_grad_(layer.weight.requires_grad)
        else:
            continue
        released.append(name)
    if released:
        warn(
            f"what {len(released)} of its layers computed of other parameters, such as the weight "
            f"of '{released[0]}', is changed, and a parameter of the narrow module"
        )
    return made


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


def _places(path: Path, own: Mapping[str, Any], value: str) -> tuple[str, Any] | None:
    """The tensor of the module whose elements a value of the file is made of by moving them alone,
    as half of a packed projection is, and the place of each in it; None where there is none."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    model = onnx.load(str(path))
    makers = {name: node for node in model.graph.node for name in node.output}
    nodes: list[Any] = []
    wanted, tensors = [value], set()
    while wanted:
        name = wanted.pop()
        node = makers.get(name)
        if node is not None and node not in nodes:
            nodes.insert(0, node)
            wanted.extend(node.input)
        elif name in own and own[name].is_floating_point():
            tensors.add(name)
    if len(tensors) != 1 or not {node.op_type for node in nodes} <= _MOVES:
        return None
    (name,) = tensors
    places = np.arange(own[name].numel()).reshape(own[name].shape)
    numbers = onnx.helper.make_tensor_value_info(name, onnx.TensorProto.INT64, places.shape)
    made = onnx.helper.make_tensor_value_info(value, onnx.TensorProto.INT64, None)
    constants = [one for one in model.graph.initializer if one.name != name]
    graph = onnx.helper.make_graph(nodes, "places", [numbers], [made], constants)
    of_file = onnx.helper.make_model(graph, opset_imports=model.opset_import)
    (found,) = ReferenceEvaluator(of_file).run(None, {name: places})
    return name, found


def _narrowed(tensor: Any, places: Any, array: Any) -> Any | None:
    """The tensor without the slices that a value made of it by moving elements has lost, such as
    the columns of heads in a table of biases; None where it has lost no whole ones."""
    axes = [a for a, n in enumerate(array.shape) if places.shape[a : a + 1] != (n,)]
    if len(axes) != 1 or array.ndim != places.ndim:
        return None
    (axis,) = axes
    dense = np.moveaxis(places, axis, 0).reshape(places.shape[axis], -1)
    left = np.moveaxis(array, axis, 0).reshape(array.shape[axis], -1)
    kept = [[k for k, own in enumerate(dense) if np.array_equal(tensor.flat[own], x)] for x in left]
    if not all(kept):
        return None
    for own_axis, numbers in enumerate(np.unravel_index(dense, tensor.shape)):
        one_each = (numbers == numbers[:, :1]).all() and len({*numbers[:, 0]}) == len(numbers)
        if one_each and len(numbers) == tensor.shape[own_axis]:
            return tensor.take(numbers[[k[0] for k in kept], 0], axis=own_axis)
    return None


def _is_as_before(path: Path, value: str, array: Any) -> bool:
    """Whether the file computes just this from its constants."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    model = onnx.load(str(path))
    makers = {name: node for node in model.graph.node for name in node.output}
    constants = {one.name for one in model.graph.initializer}
    nodes: list[Any] = []
    wanted = [value]
    while wanted:
        name = wanted.pop()
        node = makers.get(name)
        if node is not None and node not in nodes:
            nodes.append(node)
            wanted.extend(one for one in node.input if one)
        elif node is None and name not in constants:
            return False
    order = [node for node in model.graph.node if node in nodes]
    made = onnx.helper.make_tensor_value_info(value, onnx.TensorProto.FLOAT, None)
    graph = onnx.helper.make_graph(order, "before", [], [made], [*model.graph.initializer])
    of_file = onnx.helper.make_model(graph, opset_imports=model.opset_import)
    (found,) = ReferenceEvaluator(of_file).run(None, {})
    return found.shape == array.shape and np.allclose(found, array, rtol=1e-5, atol=1e-6)


def _put_part(
    own: Mapping[str, Any],
    found: tuple[str, Any] | None,
    value: str,
    array: Any,
    changed: dict[str, Any],
) -> str:
    """Puts a changed value where it lies in a tensor of the module, whose name it gives."""
    name, places = found if found is not None else ("", np.empty(0))
    narrow = _narrowed(own[name].numpy(), places, array) if name and name not in changed else None
    if narrow is not None:
        changed[name] = narrow
        return name
    if name and name not in changed:
        changed[name] = np.array(own[name].numpy())
    if not name or places.shape != array.shape or changed[name].shape != own[name].shape:
        raise UnsupportedError(f"what is changed is no tensor of the module: '{value}'")
    changed[name].flat[places.ravel()] = array.ravel()
    return name


def _changed(dense: nn.Module, path: Path, after: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors of the module that the run has changed, which was exported to a file."""
    own = _own(dense)
    before: Mapping[str, Any] = _read(path)
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
            del changed[name]
            if origin is None and array.dtype.kind == "f" and _is_as_before(path, name, array):
                continue  # computed from constants when the file was opened
            if array.dtype.kind == "f" and len(values) != 1:
                name = _put_part(own, _places(path, own, name), name, array, changed)
        if name in changed and len(names[id(own[name])]) > 1:
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
    if len(made) > len(expected):  # the last of them that may be it
        made = [one for one in made if one.shape == expected[0].shape][-1:]
    found = _apart(expected, made) if len(made) == len(expected) else math.inf
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
