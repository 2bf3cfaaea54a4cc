"""Importing this module makes a process warm: what a decision needs is loaded, compiled and has run.

It decides a bundled property by both compiled searches, so that every kernel is compiled, or loaded from the
cache. Forks of such a process start at full speed (`anybound.benching.PRELOAD`), and the time of no
instance is spent on compiling. Nothing here starts a thread: onnxruntime is imported, but not run.
"""

from importlib.resources import as_file, files

import onnxruntime

from anybound.deciding import verify
from anybound.io.onnx_reader import load
from anybound.io.vnnlib import read_vnnlib
from anybound.searches.compact import Compact
from anybound.searches.inputs import Inputs

__all__: list[str] = []

_NETWORK = "networks/digits_dense.onnx"
_PROPERTY = "properties/digits_dense_image2_5_eps0.08.vnnlib"


def _decide() -> None:
    data = files("anybound") / "data"
    with as_file(data / _NETWORK) as network, as_file(data / _PROPERTY) as prop:
        model, wanted = load(network, check=False), read_vnnlib(prop)
    for search in (Compact(), Inputs(subproblems=1)):
        verify(model, wanted, threads=1, search=search)


onnxruntime.set_default_logger_severity(4)
_decide()
