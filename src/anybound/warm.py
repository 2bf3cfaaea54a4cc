"""Importing this module makes a process warm: what a decision needs is loaded, compiled and has run.

It decides a bundled property, for which every kernel of the search is compiled, or loaded from the
cache. Forks of such a process start at full speed (`anybound.benching.PRELOAD`), and the time of no
instance is spent on compiling. Nothing here starts a thread: onnxruntime is imported, but not run.
"""

from importlib.resources import as_file, files

import onnxruntime

from anybound.deciding import verify
from anybound.io.onnx_reader import load
from anybound.io.vnnlib import read_vnnlib

__all__: list[str] = []

_NETWORK = "networks/digits_dense.onnx"
_PROPERTY = "properties/digits_dense_image2_5_eps0.08.vnnlib"


def _decide() -> None:
    data = files("anybound") / "data"
    with as_file(data / _NETWORK) as network, as_file(data / _PROPERTY) as prop:
        verify(load(network, check=False), read_vnnlib(prop), threads=1)


onnxruntime.set_default_logger_severity(4)
_decide()
