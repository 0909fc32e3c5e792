#!python
"""The program `grail` on PATH: it lies in the package, beside its libraries."""

import importlib.util
import os
import sys

found = importlib.util.find_spec("grail")  # finds the package without loading it
if found is None or found.origin is None:
    sys.exit("grail: the package is not installed for " + sys.executable)
program = os.path.join(os.path.dirname(found.origin), "bin", "grail")
# Commands that the package adds lie beside this script, which need not be on PATH.
beside = os.path.dirname(os.path.abspath(__file__))
os.environ["PATH"] = os.pathsep.join(filter(None, [os.environ.get("PATH"), beside]))
os.execv(program, [program, *sys.argv[1:]])
