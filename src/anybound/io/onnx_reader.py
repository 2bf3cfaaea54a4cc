"""ONNX files, read directly into the normal form.

Every tensor of the graph becomes a known constant or an affine expression Σ_j M_j z_j of nodes that
exist already (`onnx_ops.value`). Linear operators compose maps; an activation makes a node. Free
batch axes are 1. All weights are exact in float64; what folding them rounds is recorded in the
maps' `error`.
"""

from __future__ import annotations

from pathlib import Path

from onnx import ModelProto

from anybound.errors import AnyboundError
from anybound.io.files import read_bytes
from anybound.io.model_info import Model
from anybound.io.onnx_file import OnnxFile, open_model
from anybound.io.onnx_graph import GraphReader
from anybound.model.network import Network
from anybound.model.passes.normalise import normalise

__all__ = ["from_proto", "load", "read_onnx"]


def load(path: str | Path, *, check: bool = True) -> Network:
    """The network of an `.onnx` or `.onnx.gz` file, by default compared with onnxruntime.

    >>> import anybound
    >>> net = anybound.load(anybound.bundled("digits_sigmoid.onnx"))
    >>> net.input_shape, net.output_size, net.layout.total
    ((1, 1, 8, 8), 10, 80)
    """
    content, file = _opened(path)
    network = _read(file).network
    if check:
        from anybound.io.trust import compare

        compare(content, network, directory=Path(path).parent)
    return network


def read_onnx(path: str | Path) -> Model:
    """The network and what its file says about it, without comparison."""
    return _read(_opened(path)[1])


def from_proto(proto: ModelProto) -> Model:
    """A model in memory."""
    return _read(OnnxFile(proto, None))


def _opened(path: str | Path) -> tuple[bytes, OnnxFile]:
    content = read_bytes(path)
    return content, open_model(content, Path(path))


def _read(file: OnnxFile) -> Model:
    try:
        return Model(normalise(GraphReader(file).network()), file.info())
    except AnyboundError as error:
        # Names come from the file and may hold anything, line breaks included.
        line = "".join(c if c.isprintable() else "?" for c in str(error))
        raise type(error)(line) from None
