"""grail: narrow trained networks and repair them in closed form.

The functions are the commands of the program `grail`, and their keyword arguments its options with
`_` in place of `-`:

    import grail

    report = grail.compress("model", "narrow", calib="text.txt", sparsity=0.3, eval="other.txt")
    print(report.totals.parameters, report.quality)
"""

from __future__ import annotations

import importlib as _importlib
from typing import Any as _Any

from . import errors, measure, model, records, result, run, runner, samples, statistics
from ._native import ffi as _ffi
from ._native import lib as _lib
from .errors import *
from .measure import *
from .model import *
from .records import *
from .result import *
from .run import *
from .runner import *
from .samples import *
from .statistics import *

version: str = _ffi.string(_lib.grail_version()).decode()
__version__ = version


def __getattr__(name: str) -> _Any:
    if name == "torch":  # needs torch, so nothing else imports it
        return _importlib.import_module(".torch", __name__)
    raise AttributeError(f"module 'grail' has no attribute '{name}'")


__all__ = ["version"]
__all__ += errors.__all__
__all__ += measure.__all__
__all__ += model.__all__
__all__ += records.__all__
__all__ += result.__all__
__all__ += run.__all__
__all__ += runner.__all__
__all__ += samples.__all__
__all__ += statistics.__all__
