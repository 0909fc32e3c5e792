"""grail: narrow trained networks and repair them in closed form.

The functions are the commands of the program `grail`, and their keyword arguments its options with
`_` in place of `-`:

    import grail

    report = grail.compress("model", "narrow", calib="text.txt", sparsity=0.3, eval="other.txt")
    print(report.totals.parameters, report.quality)
"""

from ._native import ffi as _ffi
from ._native import lib as _lib
from .errors import (
    ArgumentError,
    CancelledError,
    ExistsError,
    FormatError,
    GrailError,
    GrailWarning,
    InputOutputError,
    InternalError,
    NoSpaceError,
    NumericError,
    OutOfMemoryError,
    ShapeError,
    UnsupportedError,
)
from .measure import Quality, eval, verify
from .model import Model, inspect
from .records import (
    Accuracy,
    Comparison,
    CutSite,
    Facts,
    Fit,
    Forecast,
    GgufFile,
    GramFile,
    Healing,
    Loader,
    OnnxFile,
    Perplexity,
    Plan,
    Preparation,
    Site,
    Step,
    Totals,
    Trial,
)
from .result import Result
from .run import Report, compress, export, gram, heal, plan, quantize
from .runner import Runner
from .samples import Samples
from .statistics import Fitted, Reducer, Statistics

version: str = _ffi.string(_lib.grail_version()).decode()
__version__ = version

__all__ = [
    "Accuracy",
    "ArgumentError",
    "CancelledError",
    "Comparison",
    "CutSite",
    "ExistsError",
    "Facts",
    "Fit",
    "Fitted",
    "Forecast",
    "FormatError",
    "GgufFile",
    "GrailError",
    "GrailWarning",
    "GramFile",
    "Healing",
    "InputOutputError",
    "InternalError",
    "Loader",
    "Model",
    "NoSpaceError",
    "NumericError",
    "OnnxFile",
    "OutOfMemoryError",
    "Perplexity",
    "Plan",
    "Preparation",
    "Quality",
    "Reducer",
    "Report",
    "Result",
    "Runner",
    "Samples",
    "ShapeError",
    "Site",
    "Statistics",
    "Step",
    "Totals",
    "Trial",
    "UnsupportedError",
    "compress",
    "eval",
    "export",
    "gram",
    "heal",
    "inspect",
    "plan",
    "quantize",
    "verify",
    "version",
]
