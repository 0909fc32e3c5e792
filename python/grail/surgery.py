"""Modules of torch that grail does not know, narrowed in place."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Union

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from .adapters import is_batch
from .errors import ArgumentError, CancelledError, NumericError, ShapeError, UnsupportedError
from .records import Step
from .statistics import Fitted, Reducer, Statistics
from .watch import Progress, Watch

Layer = Union["nn.Module", str]
_MAKERS = (nn.Linear, nn.Conv2d)
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_INSTANCE_NORMS = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)
_RMS_NORM = tuple(filter(None, [getattr(nn, "RMSNorm", None)]))  # torch 2.4
_CONVOLUTIONS = (
    *(nn.Conv1d, nn.Conv2d, nn.Conv3d),
    *(nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d),
)
_PATCH_FLOATS = 1 << 24  # of an input of a convolution that are unfolded at once


@dataclass(frozen=True)
class NarrowedSite:
    """A site that narrow() has cut."""

    name: str  # of the consumer
    producers: tuple[str, ...]
    units: int
    kept: int
    labels: Any  # of each unit its place among the kept, or its cluster; -1: it is removed
    fit: Fitted | None  # None: nothing was fitted


def sizes(
    layer: nn.Module, tensors: Mapping[str, Any], groups: int | None = None
) -> dict[str, Any] | None:
    """The attributes of a layer that has these tensors, and of its groups so many where whole ones
    are gone; None: it is of no kind that is known."""
    shape: tuple[int, ...] = tuple(tensors["weight"].shape) if "weight" in tensors else ()
    if isinstance(layer, nn.Linear):
        return {"out_features": shape[0], "in_features": shape[1]}
    if isinstance(layer, _CONVOLUTIONS):
        turned = int(layer.transposed)  # [in, out / groups, ...], not [out, in / groups, ...]
        if groups is None:
            groups = layer.groups
        if 1 < layer.groups == layer.in_channels:
            groups = shape[0] * layer.groups // layer.weight.shape[0]
        channels = (shape[0], shape[1] * groups)
        return {
            "out_channels": channels[turned],
            "in_channels": channels[1 - turned],
            "groups": groups,
        }
    if isinstance(layer, (*_NORMS, *_INSTANCE_NORMS)):
        return {"num_features": len(next(iter(tensors.values())))}
    if isinstance(layer, nn.GroupNorm):
        each = layer.num_groups == layer.num_channels  # a group of its own for each channel
        return {"num_channels": shape[0], "num_groups": shape[0] if each else layer.num_groups}
    if isinstance(layer, (nn.LayerNorm, *_RMS_NORM)):
        return {"normalized_shape": shape}
    if isinstance(layer, nn.Embedding):
        return {"num_embeddings": shape[0], "embedding_dim": shape[1]}
    if isinstance(layer, nn.PReLU):
        return {"num_parameters": shape[0]}
    if type(layer).__name__ == "Conv1D" and hasattr(layer, "nf"):  # of transformers, [in, out]
        return {"nx": shape[0], "nf": shape[1]}
    return None


def clone(layer: nn.Module, tensors: Mapping[str, Any], sizes: Mapping[str, Any]) -> nn.Module:
    """The layer with other tensors; its class, hooks and settings stay."""
    made = copy.copy(layer)
    made._parameters = dict(layer._parameters)
    made._buffers = dict(layer._buffers)
    for name, value in tensors.items():
        old = getattr(layer, name)
        tensor = torch.as_tensor(value).to(old.dtype, copy=True)
        if name in made._parameters:
            made._parameters[name] = nn.Parameter(tensor, requires_grad=old.requires_grad)
        else:
            made._buffers[name] = tensor
    for name, size in sizes.items():
        setattr(made, name, size)
    return made


def put(module: nn.Module, name: str, layer: nn.Module) -> None:
    parent, _, leaf = name.rpartition(".")
    module.get_submodule(parent)._modules[leaf] = layer


def resized(
    module: nn.Module,
    tensors: Mapping[str, Any],
    sites: Sequence[Any] = (),
    compared: bool = False,
) -> tuple[Any, str]:
    """A copy of a module with these in place of its own tensors, or None and why there is none.
    Those of the run's sites that are of whole groups say how many each convolution has left. An
    attribute that may be a width is a reason unless what the copy computes is compared."""
    left = dict(tensors)
    groups = {
        site.name.removesuffix("[groups]"): site.kept for site in sites if site.kind == "groups"
    }
    own = module.state_dict(keep_vars=True).items()
    made = copy.deepcopy(module, {id(tensor): tensor for name, tensor in own if name in left})
    for name, layer in list(made.named_modules()):
        keys = [*layer._parameters, *layer._buffers]
        new = {key: left.pop(name + "." * bool(name) + key, None) for key in keys}
        new = {key: tensor for key, tensor in new.items() if tensor is not None}
        widths = {
            size
            for key, tensor in new.items()
            for size, now in zip(getattr(layer, key).shape, tensor.shape)
            if size != now
        }
        room = sizes(layer, new, groups.get(name)) if widths else {}
        if room is None and not compared and (said := _says_width(layer, widths)):
            kind = type(layer).__name__
            return None, f"the {kind} '{name}' has its width, too, as its attribute '{said}'"
        if new and name:
            put(made, name, clone(layer, new, room or {}))
        elif new:
            made = clone(layer, new, room or {})  # its submodules stay those that put() changes
    if left:
        return None, f"it has no tensor '{next(iter(left))}'"
    return made, ""


def set_counts(module: nn.Module, made: nn.Module, names: Sequence[str]) -> None:
    """Scales attributes of what holds layers that became narrower in a copy of a module."""
    for name, layer in made.named_modules():
        before = module.get_submodule(name)
        ratios = {
            new / old
            for child, part in layer.named_children()
            for key, tensor in part._parameters.items()
            if tensor is not None
            for new, old in zip(tensor.shape, getattr(before, child)._parameters[key].shape)
            if new != old
        }
        for key in names if len(ratios) == 1 else ():
            count = getattr(before, key, None)
            if type(count) is int and (count * next(iter(ratios))).is_integer():
                setattr(layer, key, int(count * next(iter(ratios))))


def _says_width(layer: nn.Module, widths: set[int]) -> str:
    """An attribute of a layer of a kind that is not known, by which it may compute."""
    name: str
    for name, value in vars(layer).items():
        several = value if isinstance(value, (tuple, list)) else [value]
        if any(type(one) is int and one in widths for one in several):
            return name
    return ""


def check_module(module: Any) -> None:
    if not isinstance(module, nn.Module) or isinstance(module, torch.jit.ScriptModule):
        raise TypeError(f"a torch.nn.Module is expected, not {type(module).__name__}")


def check_tensor(name: str, tensor: Any) -> None:
    if tensor.device.type != "cpu":
        raise TypeError(f"'{name}' lies on {tensor.device}; move the module to the cpu first")
    if tensor.layout != torch.strided:
        raise TypeError(f"'{name}' is stored as {tensor.layout}; a dense tensor is expected")


def narrow(
    module: nn.Module,
    sites: Sequence[tuple[Layer | Sequence[Layer], Layer]],
    samples: Iterable[Any],
    *,
    sparsity: float | Sequence[float] = 0.3,
    selector: str = "obs",
    compensate: str = "full",
    held_out: float = 0.25,
    progress: Progress = None,
) -> tuple[NarrowedSite, ...]:
    """Narrows a module that grail does not know, in place: at each site the units that `producers`
    make, and the `consumer` that alone reads them is fitted to what it gave before.

    Sites are pairs (producers, consumer) of submodules or their names, in the order in which the
    network runs them. Producers are what makes the units (Linear, Conv2d) and what has parameters
    for each (batch norms, PReLU, depthwise Conv2d) up to the consumer (Linear, Conv2d). `samples`
    are batches that the module is called with: arrays, tuples or dicts. `sparsity` is of all sites
    or a list; `held_out` the part of the samples by which the strength of the fit is chosen. A call
    that fails leaves the module as it was. Parameters are new objects: optimizers are made after.
    """
    check_module(module)
    if not 0.0 <= held_out < 1.0:
        raise ArgumentError(f"held_out is from 0 to below 1, not {held_out}", ("held_out",))
    found = [_Site(module, producers, consumer) for producers, consumer in sites]
    shares = list(sparsity) if isinstance(sparsity, Sequence) else [sparsity] * len(found)
    if len(shares) != len(found) or not all(0.0 <= share < 1.0 for share in shares):
        raise ArgumentError(
            "sparsity is from 0 to below 1, one for all sites or each", ("sparsity",)
        )
    batches = list(samples) if isinstance(samples, Iterator) else samples
    modes = {layer: layer.training for layer in module.modules()}
    work = _Surgery(module, batches, held_out)
    done: list[NarrowedSite] = []
    try:
        with Watch(progress) as watch, torch.no_grad():
            module.eval()
            for number, (site, share) in enumerate(zip(found, shares)):
                work.tell = lambda part, n=number: watch.tell(Step("step", n, len(found), part))
                kept = max(1, round(site.units * (1.0 - share)))
                done.append(work.cut(site, kept, selector, compensate))
                watch.tell(Step("site", number, len(found)))
    except CancelledError as error:
        work.undo()
        watch.check(error.status)
        raise
    except BaseException:
        work.undo()
        raise
    finally:
        for layer, mode in modes.items():
            layer.training = mode
        for name, layer in work.new.items():
            layer.training = modes[work.old[name]]
    return tuple(done)


class _Site:
    """The names of a site's layers, checked."""

    def __init__(self, module: nn.Module, producers: Any, consumer: Layer) -> None:
        self.module = module
        many = producers if isinstance(producers, (list, tuple)) else [producers]
        self.name = self._name(consumer)
        self.producers = tuple(self._name(layer) for layer in many)
        if len({self.name, *self.producers}) <= len(self.producers):
            raise ArgumentError(f"the site of '{self.name}' names a layer twice", ("sites",))
        reader = self.layer(self.name)
        if not isinstance(reader, _MAKERS) or getattr(reader, "groups", 1) != 1:
            raise self._refusal(self.name, "a consumer is a Linear, or a Conv2d without groups")
        self.makers = [name for name in self.producers if self._makes(name)]
        widths = {name: self.layer(name).weight.shape[0] for name in self.makers}
        if len(set(widths.values())) != 1:
            raise ShapeError(
                f"the site of '{self.name}' needs producers (Linear, Conv2d) of one width; "
                f"it has {widths or 'none'}"
            )
        self.units = int(next(iter(widths.values())))
        for name in (*self.producers, self.name):
            self._check_width(name)

    def layer(self, name: str) -> Any:
        return self.module.get_submodule(name)

    def _name(self, layer: Layer) -> str:
        named = list(self.module.named_modules(remove_duplicate=False))
        try:
            wanted = self.module.get_submodule(layer) if isinstance(layer, str) else layer
        except AttributeError:
            raise ArgumentError(f"the module has no submodule '{layer}'", ("sites",)) from None
        names = [name for name, other in named if other is wanted]
        if not names or "" in names:
            what = "the module itself" if names else "no submodule of the module"
            raise ArgumentError(f"a site names {what}: {type(wanted).__name__}", ("sites",))
        if len(names) > 1:
            raise self._refusal(names[0], f"it is shared: {', '.join(names)}")
        own = {id(value): f"{names[0]}.{key}" for key, value in wanted.named_parameters()}
        for name, other in self.module.named_parameters(remove_duplicate=False):
            if id(other) in own and name != own[id(other)]:
                raise self._refusal(names[0], f"its {own[id(other)]} is also {name}")
        for key, tensor in (*wanted.named_parameters(), *wanted.named_buffers()):
            check_tensor(f"{names[0]}.{key}", tensor)
        if isinstance(wanted, _MAKERS) and not {*wanted._parameters} <= {"weight", "bias"}:
            raise self._refusal(names[0], "its weight is made from other parameters")
        found: str = names[0]
        return found

    def _makes(self, name: str) -> bool:
        """Whether it makes units, not only passes each on."""
        layer = self.layer(name)
        groups = getattr(layer, "groups", 1)
        if isinstance(layer, _MAKERS):
            if groups != 1 and not groups == layer.in_channels == layer.out_channels:
                raise self._refusal(name, f"{groups} groups are neither 1 nor one per channel")
            if "weight" not in layer._parameters:
                raise self._refusal(name, "its weight is no parameter")
            return groups == 1
        tensors = [*layer.parameters(), *layer.buffers()]
        if tensors and not isinstance(layer, (*_NORMS, nn.PReLU)):
            raise self._refusal(
                name, "producers are Linear, Conv2d, BatchNorm, PReLU and layers without parameters"
            )
        return False

    def _check_width(self, name: str) -> None:
        layer = self.layer(name)
        width = self.units
        if name == self.name:
            width = layer.weight.shape[1]
        elif isinstance(layer, (nn.Conv2d, *_NORMS)):
            width = layer.out_channels if isinstance(layer, nn.Conv2d) else layer.num_features
        elif isinstance(layer, nn.PReLU) and layer.num_parameters > 1:
            width = layer.num_parameters
        if width % self.units != 0:
            raise ShapeError(f"'{name}' has {width} features, no multiple of {self.units} units")

    def _refusal(self, name: str, why: str) -> UnsupportedError:
        kind = type(self.module.get_submodule(name)).__name__
        return UnsupportedError(f"'{name}' ({kind}) cannot be cut: {why}", ("sites",))


class _Surgery:
    """Layers of a module that are replaced one after the other."""

    def __init__(self, module: nn.Module, batches: Iterable[Any], held_out: float) -> None:
        self.module, self.batches, self.held_out = module, batches, held_out
        self.old: dict[str, nn.Module] = {}
        self.new: dict[str, nn.Module] = {}
        self.tell: Any = None

    def undo(self) -> None:
        for name, layer in self.old.items():
            put(self.module, name, layer)
        self.new.clear()

    @contextmanager
    def dense(self) -> Iterator[None]:
        """While the module is as it was."""
        try:
            for name, layer in self.old.items():
                put(self.module, name, layer)
            yield
        finally:
            for name, layer in self.new.items():
                put(self.module, name, layer)

    def replace(self, name: str, layer: nn.Module) -> None:
        self.old.setdefault(name, self.module.get_submodule(name))
        self.new[name] = layer
        put(self.module, name, layer)

    def run(self, batch: Any, overrides: Mapping[str, Any] | None = None) -> list[Any]:
        """The tensors that the module gives."""
        arguments, keywords = ((), batch) if isinstance(batch, Mapping) else (batch, {})
        if not isinstance(batch, (tuple, list, Mapping)):
            arguments = (batch,)
        if overrides is None:
            return tensors_of(self.module(*arguments, **keywords))
        call = torch.func.functional_call
        return tensors_of(call(self.module, dict(overrides), tuple(arguments), dict(keywords)))

    def calls(self, batch: Any, name: str) -> list[tuple[Any, Any]]:
        """Inputs and outputs of a layer while the module runs."""
        seen: list[tuple[Any, Any]] = []

        def see(_layer: nn.Module, given: Any, made: Any) -> None:
            seen.append((given[0] if given else None, made))

        handle = self.module.get_submodule(name).register_forward_hook(see)
        try:
            self.run(batch)
        finally:
            handle.remove()
        if not seen or any(not torch.is_tensor(given) for given, _ in seen):
            raise UnsupportedError(f"the module does not call '{name}' with a tensor", ("sites",))
        return seen

    def first(self) -> Any:
        for batch in self.batches:
            if not is_batch(batch):
                break
            return batch
        raise ArgumentError(
            "samples are batches that the module is called with: arrays, tuples or dicts",
            ("samples",),
        )

    def cut(self, site: _Site, kept: int, selector: str, compensate: str) -> NarrowedSite:
        batch = self.first()
        shapes = self._check_wiring(site, batch)
        layer = site.layer(site.name)
        weight, bias = layer.weight, layer.bias
        fit, held = self._observe(site, compensate not in ("none", "grail", "own"))
        makers = [(site.layer(name).weight, site.layer(name).bias) for name in site.makers]
        reducer = fit.select(
            kept,
            consumer=weight,
            producers=[row if row[1] is not None else row[0] for row in makers],
            units=site.units,
            selector=selector,
            bias=bias is not None and compensate not in ("none", "grail"),
            held=held,
        )
        fitted = None
        if compensate != "none":
            fitted = fit.fit(
                weight,
                reducer,
                held=held,
                compensate=compensate,
                selector=selector if compensate == "own" else None,
                bias=bias is not None,
            )
        for name in site.producers:
            self._narrow_producer(site, name, reducer)
        new = {"weight": reducer.narrow_consumer(weight) if fitted is None else fitted.weight}
        if fitted is not None and fitted.bias_change is not None:
            new["bias"] = bias.double() + torch.as_tensor(fitted.bias_change)
        self.replace(site.name, clone(layer, new, sizes(layer, new) or {}))
        self._check_runs(site, batch, shapes)
        return NarrowedSite(
            site.name, site.producers, site.units, reducer.kept, reducer.labels, fitted
        )

    def _narrow_producer(self, site: _Site, name: str, reducer: Reducer) -> None:
        layer = site.layer(name)
        tensors = (*layer._parameters.items(), *layer._buffers.items())
        new = {
            key: reducer.narrow(tensor)
            for key, tensor in tensors
            if tensor is not None and tensor.ndim > 0 and len(tensor) >= site.units
        }
        if new and not (isinstance(layer, nn.PReLU) and layer.num_parameters == 1):
            self.replace(name, clone(layer, new, sizes(layer, new) or {}))

    def _check_wiring(self, site: _Site, batch: Any) -> list[Any]:
        """Whether the consumer alone reads the units, in their order: where it ignores some, what
        these hold makes no difference. The shapes of what the module gives."""
        reader = f"{site.name}.weight"
        weight = site.layer(site.name).weight.detach().clone()
        weight.reshape(weight.shape[0], site.units, -1)[:, ::2] = 0.0
        before = {reader: weight.contiguous()}
        after = dict(before)
        for name in site.makers:
            for key, tensor in site.layer(name).named_parameters(recurse=False):
                moved = tensor.detach().clone()
                moved[::2] = tensor.abs().mean() + 0.1 - moved[::2]
                after[f"{name}.{key}"] = moved
        try:
            expected = self.run(batch, before)
        except (TypeError, RuntimeError, ValueError, IndexError) as failure:
            raise ArgumentError(
                f"the module does not take the first batch of samples: {failure}", ("samples",)
            ) from failure
        if not expected:
            raise UnsupportedError("the module gives no tensor to check a cut by", ("sites",))
        for one, other in zip(expected, self.run(batch, after)):
            scale = one.abs().max() if one.is_floating_point() and one.numel() > 0 else 0.0
            bound = 100.0 * torch.finfo(one.dtype).eps * scale if scale else 0.0
            if one.shape != other.shape or bool(((one - other).abs() > bound).any()):
                raise UnsupportedError(
                    f"'{site.name}' is not all that reads what {', '.join(site.producers)} make, "
                    "or reads it in another order",
                    ("sites",),
                )
        return [tensor.shape for tensor in expected]

    def _check_runs(self, site: _Site, batch: Any, shapes: list[Any]) -> None:
        try:
            for name in (*site.makers, site.name):
                self.calls(batch, name)
            made = [tensor.shape for tensor in self.run(batch)]
        except (RuntimeError, TypeError, ValueError) as failure:
            raise ShapeError(
                f"the module does not run with the site of '{site.name}' cut: {failure}; name all "
                "layers with parameters for the units as producers",
                ("sites",),
            ) from failure
        if made != shapes:
            raise ShapeError(
                f"with the site of '{site.name}' cut the module gives {made}, not {shapes}",
                ("sites",),
            )

    def _observe(self, site: _Site, aims: bool) -> tuple[Statistics, Statistics | None]:
        """Statistics of the consumer's input, and those of what is held out; with the output of
        the dense network as the target."""
        layer = site.layer(site.name)
        width = layer.weight[0].numel()
        parts = [Statistics(width, len(layer.weight) if aims else 0) for _ in range(2)]
        items = 0
        total = len(self.batches) if isinstance(self.batches, Sized) else 0
        for number, batch in enumerate(self.batches):
            seen = self.calls(batch, site.name)
            aim = seen
            if aims and self.old:
                with self.dense():
                    aim = self.calls(batch, site.name)
            try:
                for (given, _), (_, made) in zip(seen, aim):
                    items = self._add(parts, layer, given, made if aims else None, items)
            except NumericError as error:
                where = f"the input of '{site.name}' in batch {number} of the samples"
                raise NumericError(f"{where}: {error.message}", ("samples",)) from None
            if self.tell is not None and total:
                self.tell((number + 1) / total)
        if parts[0].count == 0:
            raise ArgumentError("no samples are left to fit on", ("samples", "held_out"))
        return parts[0], parts[1] if parts[1].count > 0 else None

    def _add(self, parts: list[Statistics], layer: Any, x: Any, y: Any, items: int) -> int:
        is_map = isinstance(layer, nn.Conv2d)
        if x.ndim == (3 if is_map else 1):  # without an axis of samples
            x, y = x[None], None if y is None else y[None]
        if y is not None and layer.bias is not None:
            y = y - layer.bias.reshape(-1, *[1] * (2 * is_map))
        numbers = torch.arange(items, items + len(x), dtype=torch.float64)
        held = torch.floor((numbers + 1) * self.held_out) > torch.floor(numbers * self.held_out)
        step = len(x)
        if is_map:
            step = max(1, _PATCH_FLOATS * len(x) // (x.numel() * layer.weight[0, 0].numel() + 1))
        for statistics, mark in zip(parts, (~held, held)):
            for chosen in mark.nonzero().flatten().split(max(step, 1)):
                rows = _patches(layer, x[chosen]) if is_map else x[chosen]
                aim = None if y is None else y[chosen]
                if is_map and aim is not None:
                    aim = aim.flatten(2).transpose(1, 2)
                if rows.numel() > 0:
                    statistics.add(rows.float(), None if aim is None else aim.float())
        return items + len(x)


def _patches(layer: Any, x: Any) -> Any:
    """What a convolution multiplies its kernels with, [images, positions, channels x kernel]."""
    mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
    padded = nn.functional.pad(x, layer._reversed_padding_repeated_twice, mode=mode)
    size, how = layer.kernel_size, {"dilation": layer.dilation, "stride": layer.stride}
    return nn.functional.unfold(padded, size, **how).transpose(1, 2)


def tensors_of(value: Any) -> list[Any]:
    """Those in what a module gives."""
    return [leaf for leaf in tree_leaves(value) if torch.is_tensor(leaf)]
