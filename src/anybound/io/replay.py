"""Replay: the original model, run by onnxruntime, as a function of flat float64 points.

    y = replay(x),     x [n_in] float64,  y [n_out] float64

The session is made on first use, with onnxruntime's own settings but for one thread, so that
anybody who runs the file sees the same output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from anybound.errors import InvalidInput, UnsupportedModel
from anybound.io.files import read_bytes

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

__all__ = ["Replay"]

_ELEMENT_TYPES: Mapping[str, np.dtype[np.floating]] = MappingProxyType(
    {
        "tensor(float)": np.dtype(np.float32),
        "tensor(double)": np.dtype(np.float64),
        "tensor(float16)": np.dtype(np.float16),
    }
)


@dataclass(frozen=True, eq=False)
class Replay:
    """An ONNX model as it is in its file; `directory` is where its external data lies."""

    content: bytes
    directory: Path | None = None

    @staticmethod
    def of(path: str | Path) -> Replay:
        """The model of an `.onnx` or `.onnx.gz` file."""
        return Replay(read_bytes(path), Path(path).parent)

    def __call__(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """The outputs at one flat point, which is rounded to the model's element type."""
        if x.size != prod(self.input_shape):
            raise InvalidInput(
                f"replay: the point has {x.size} numbers, the model's input {self.input_shape} "
                f"{prod(self.input_shape)}; is it a point of another network?"
            )
        point = np.asarray(x, dtype=self.dtype).reshape(self.input_shape)
        try:
            (y,) = self._session.run(None, {self._session.get_inputs()[0].name: point})
        # onnxruntime's exceptions have no common base; all of them mean that it cannot run this.
        except Exception as error:  # noqa: BLE001
            raise _cannot_run(error) from None
        return np.asarray(y, dtype=np.float64).reshape(-1)

    def batch(self, points: Sequence[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
        """The outputs at several points, one by one: a fixed batch axis is no obstacle."""
        return [self(point) for point in points]

    @cached_property
    def dtype(self) -> np.dtype[np.floating]:
        """The element type of the model's input."""
        name = self._session.get_inputs()[0].type
        if name not in _ELEMENT_TYPES:
            raise UnsupportedModel(
                f"replay: the model's input is a {name}; expected {', '.join(_ELEMENT_TYPES)}"
            )
        return _ELEMENT_TYPES[name]

    @cached_property
    def input_shape(self) -> tuple[int, ...]:
        """The input's shape, 1 where the file leaves an axis open."""
        shape = self._session.get_inputs()[0].shape
        return tuple(extent if isinstance(extent, int) else 1 for extent in shape)

    @cached_property
    def _session(self) -> InferenceSession:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        if self.directory is not None:
            folder = "session.model_external_initializers_file_folder_path"
            options.add_session_config_entry(folder, str(self.directory.resolve()))
        try:
            session = ort.InferenceSession(
                self.content, options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # noqa: BLE001  as above
            raise _cannot_run(error) from None
        if len(session.get_inputs()) != 1 or len(session.get_outputs()) != 1:
            raise UnsupportedModel(
                f"replay: the model has {len(session.get_inputs())} inputs and "
                f"{len(session.get_outputs())} outputs; expected one of each"
            )
        return session


def _cannot_run(error: Exception) -> UnsupportedModel:
    reason = str(error).partition("\n")[0]
    return UnsupportedModel(f"replay: onnxruntime cannot run the model ({reason})")
