"""Live modules of torch: those that grail knows, narrowed in memory, and any others in place."""

from __future__ import annotations

import copy
import inspect
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from . import exported, run
from .errors import FormatError, ShapeError, UnsupportedError, warn
from .model import Model
from .result import Result
from .samples import Samples
from .surgery import NarrowedSite, check_module, check_tensor, narrow, resized

__all__ = ["Narrowed", "NarrowedSite", "compress", "narrow"]
_DRY = "a dry run makes no network"


@dataclass(frozen=True)
class Narrowed:
    """What compress() made. `module` is the narrowed module; None where neither a stock class nor a
    copy with narrow layers computes with these widths, which `reason` says. `report.result` has the
    tensors and documents in any case. `difference` is that of the module's outputs from what grail
    computes, relative to the largest, where the module is such a copy."""

    module: Any
    reason: str
    report: run.Report
    difference: float | None = None

    @property
    def result(self) -> Result:
        result = self.report.result
        assert result is not None
        return result


def compress(
    module: nn.Module,
    samples: Any,
    *,
    sparsity: run.Sparsity | None = None,
    documents: Mapping[str, bytes | str] | None = None,
    set: Mapping[str, Any] | None = None,
    **options: Any,
) -> Narrowed:
    """Narrows a copy of a live module, which stays as it is.

    Families of transformers, timm and torchvision that grail knows need no disk. Any other module
    is exported to ONNX in a temporary directory (torch, onnx, onnxscript), narrowed there, and its
    narrow layers are put into a copy, which must compute what that file does, in all outputs; where
    one of this cannot be done, UnsupportedError says which.

    `samples` are token ids or prepared pixels as Samples.loader takes them, or Samples; an array of
    vectors, of signals [signals, channels, length] or of images that are not square; of a module
    with several inputs Samples.inputs(), a tuple of arrays in the order of its forward(), or a
    mapping of input_ids, pixel_values and what else it takes.
    `documents` are other files of its directory, such as "tokenizer.json". The options are those of
    grail.compress().
    """
    check_module(module)
    for name, tensor in module.state_dict(keep_vars=True).items():
        check_tensor(name, tensor)
    if options.get("output") is not None:
        raise TypeError("compress() of a live module has no output; grail.compress() writes one")
    shape: Any = getattr(samples, "shape", ()) if hasattr(samples, "__array__") else ()
    is_square = len(shape) == 4 and (shape[2] == shape[3] or shape[1] == shape[2])
    if "float" in str(getattr(samples, "dtype", "")) and len(shape) > 1 and not is_square:
        samples = (samples,)  # vectors, signals, and images that are not square
    if isinstance(samples, tuple) and all(hasattr(one, "__array__") for one in samples):
        names = list(inspect.signature(module.forward).parameters)[: len(samples)]
        samples = Samples.inputs(dict(zip(names, samples)))
    if isinstance(samples, Mapping) and {"input_ids", "pixel_values"} <= samples.keys():
        samples = Samples.inputs(samples)
    samples = _samples(samples)
    if options.get("eval") is not None:
        options["eval"] = _samples(options["eval"])
    options["sparsity"] = sparsity
    name = type(module).__name__
    if isinstance(samples, Samples) and samples.named:
        return _by_export(module, samples, set or {}, options)
    config, tensors, settings = _saved_form(module)
    settings.update(set or {})
    try:
        model = Model.from_tensors(config, tensors, documents=documents, name=name, set=settings)
    except (FormatError, ShapeError, UnsupportedError):
        return _by_export(module, samples, set or {}, options)
    if model.facts.reads_images and not exported.computes(module, model, samples):
        kind = model.facts.architecture
        warn(f"{name}: its tensors are named as those of {kind}, but it computes something else")
        return _by_export(module, samples, set or {}, options)
    report = run.compress(model, calib=samples, **options)
    if report.result is None:
        return Narrowed(None, _DRY, report)
    made, reason = _live(module, report.result, report)
    if made is not None:
        return Narrowed(made, reason, report)
    own = {tensor.data_ptr(): key for key, tensor in module.state_dict().items()}
    places = {key: own.get(tensor.data_ptr(), key) for key, tensor in tensors.items()}
    try:
        made, difference = exported.fitted(module, report.result, places, report.sites)
    except Exception:  # of its code, too; the reason for the copy says more
        warn(f"{name}: no live module: {reason}; result has the tensors")
        return Narrowed(None, reason, report)
    warn(f"{name}: {reason}; so the module is a copy with narrow layers, which torch.save() keeps")
    return Narrowed(made, "", report, difference)


def _by_export(
    module: nn.Module,
    samples: Any,
    settings: Mapping[str, Any],
    options: Mapping[str, Any],
) -> Narrowed:
    ids = samples.windows if isinstance(samples, Samples) else None
    if ids is not None:
        samples = Samples.inputs({next(iter(inspect.signature(module.forward).parameters)): ids})
    try:
        made, report, difference = exported.compress(module, samples, settings, options)
    except UnsupportedError as error:
        raise UnsupportedError(
            f"{type(module).__name__} is of no family that grail knows, and by way of ONNX "
            f"{error.message}; grail.torch.narrow cuts any module at sites that you name"
        ) from error
    return Narrowed(made, _DRY if made is None else "", report, difference)


def _samples(samples: Any) -> Any:
    paths = samples if isinstance(samples, list) else [samples]
    if isinstance(samples, Samples) or all(
        isinstance(path, (str, os.PathLike))
        or (isinstance(path, tuple) and isinstance(path[0], (str, os.PathLike)))
        for path in paths
    ):
        return samples
    is_one = hasattr(samples, "__dlpack__") or isinstance(samples, Mapping)
    return Samples.loader([samples] if is_one else samples)


def _is_transformers(module: nn.Module) -> bool:
    return hasattr(getattr(module, "config", None), "to_json_string")


def _saved_form(module: nn.Module) -> tuple[str | None, dict[str, Any], dict[str, Any]]:
    """config.json, the tensors of the weights file, and settings, as the module's library would
    save them."""
    tensors = dict(module.state_dict())
    if _is_transformers(module):
        config = copy.deepcopy(module.config)
        config.architectures = [type(module).__name__]
        config.dtype = str(next(iter(tensors.values())).dtype).rpartition(".")[2]
        return config.to_json_string(), _saved_tensors(module, tensors), {}
    settings = {}
    vit = getattr(getattr(module, "encoder", None), "layers", None)
    if hasattr(module, "hidden_dim") and vit is not None:  # VisionTransformer of torchvision
        settings["head_dim"] = module.hidden_dim // vit[0].num_heads
    preset = getattr(module, "pretrained_cfg", None)
    blocks = getattr(module, "blocks", None)
    attention = getattr(blocks[0], "attn", None) if isinstance(blocks, nn.Sequential) else None
    head = getattr(attention, "head_dim", None)
    if not preset and isinstance(head, int):  # of timm, built without a name
        settings["head_dim"] = head
    return None if not preset else json.dumps(_timm_config(module, preset)), tensors, settings


def _saved_tensors(module: nn.Module, tensors: dict[str, Any]) -> dict[str, Any]:
    """Under the names that save_pretrained writes, each tied weight once."""
    from transformers import modeling_utils

    for name in getattr(module, "_keys_to_ignore_on_save", None) or ():
        tensors.pop(name, None)
    tied = getattr(modeling_utils, "remove_tied_weights_from_state_dict", None)
    if tied is None:  # transformers 4 has the names of files in memory; grail reads tied heads
        first = {tensor.data_ptr(): name for name, tensor in reversed(tensors.items())}
        return {name: t for name, t in tensors.items() if first[t.data_ptr()] == name}
    from transformers.core_model_loading import revert_weight_conversion

    saved: dict[str, Any] = revert_weight_conversion(module, tied(tensors, module))
    return saved


def _timm_config(module: nn.Module, preset: Any) -> dict[str, Any]:
    """What timm's save_for_hf writes, as far as it says how the network is built and fed."""
    preset = dict(preset if isinstance(preset, Mapping) else vars(preset))
    plain = {
        key: value
        for key, value in preset.items()
        if isinstance(value, (str, int, float, tuple, list)) and key not in ("url", "file")
    }
    plain["num_classes"] = getattr(module, "num_classes", 0)
    arguments = dict(getattr(module, "_model_args", {}))
    blocks = getattr(module, "blocks", None)
    if blocks is not None and hasattr(blocks[0], "attn"):
        arguments["num_heads"] = blocks[0].attn.num_heads
    config = {
        "architecture": plain.pop("architecture", ""),
        "num_classes": plain["num_classes"],
        "model_args": {k: v for k, v in arguments.items() if isinstance(v, (str, int, float))},
        "pretrained_cfg": plain,
    }
    if isinstance(getattr(module, "global_pool", None), str):
        config["global_pool"] = module.global_pool
    return config


def _live(module: nn.Module, result: Result, report: run.Report) -> tuple[Any, str]:
    """A module with these tensors, or None and why there is none."""
    if not _is_transformers(module):
        cut = {site.kind for site in report.sites if site.kept < site.units} - {
            "ffn",
            "conv",
            "groups",
        }
        if cut:
            return None, f"its class keeps the number of {' and '.join(sorted(cut))}"
        return resized(module, result.torch(), report.sites)
    verdict = next((one for one in report.loaders if one.name == "transformers"), None)
    if verdict is None or not verdict.loads or "trust_remote_code" in verdict.reason:
        return None, "transformers: " + (verdict.reason if verdict else "it has no class for it")
    import transformers

    config = transformers.AutoConfig.for_model(**result.config)
    kind = getattr(transformers, (config.architectures or [""])[0], type(module))
    attention = getattr(module.config, "_attn_implementation", None)
    extra = {"attn_implementation": attention} if attention else {}
    made, loading = kind.from_pretrained(
        None,
        config=config,
        state_dict=result.torch(),
        dtype=getattr(module, "dtype", None),
        output_loading_info=True,
        **extra,
    )
    lost = [name for key in ("missing_keys", "unexpected_keys") for name in loading[key]]
    if lost or loading.get("mismatched_keys"):
        return None, f"{kind.__name__} did not take {', '.join(map(str, lost)) or 'all tensors'}"
    if getattr(module, "generation_config", None) is not None:
        made.generation_config = copy.deepcopy(module.generation_config)
    return made.train(module.training), ""
