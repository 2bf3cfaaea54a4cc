"""Is the network that was read the one that onnxruntime runs? Both are evaluated at random points,
of the property's input sets where there is one.

onnxruntime computes in float32, the normal form here in float64, so they differ by rounding. The
outputs y agree if

    |y_ort − y| <= 1e-4·|y| + 1e-5·(|W_n||z_{n−1}| + |b_n|) + 64·|y_32 − y|

where the second term scales with the numbers that the last layer adds up, and the third, evaluated
only where the first two do not suffice, is what the same network loses when this project runs it in
float32. A wrongly read operator is off by far more: the terms are about 1,000 times the rounding of
one layer, u = 6e-8.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anybound.errors import UnsupportedModel
from anybound.model.network import Network, sum_of
from anybound.spec.property import Property

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

RELATIVE = 1e-4
OF_LAST_LAYER = 1e-5
OF_FLOAT32 = 64.0
MOST_SETS = 4  # of a property's input sets, a point each
_HALF = 2.0**13  # float16 rounds that much coarser than float32
_ELEMENT_TYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
}


def compare(
    content: bytes,
    network: Network,
    points: Sequence[NDArray[np.floating]] | None = None,
    *,
    directory: Path | None = None,
) -> float:
    """The largest difference of the outputs at `points`, by default those of `anywhere`; an error if
    it is no rounding.

    `content` is the ONNX file, `directory` where its external data lies.
    """
    session = _session(content, directory)
    worst = 0.0
    for point in anywhere(network) if points is None else points:
        # Both get the number that the file's element type can hold.
        element = _ELEMENT_TYPES.get(session.get_inputs()[0].type, np.float32)
        x = np.asarray(point).reshape(network.input_shape).astype(element)
        worst = max(worst, _difference(session, network, x))
    return worst


def within(network: Network, prop: Property) -> list[NDArray[np.float64]]:
    """Random points of the first few input sets of a property, but for those too large for float32."""
    rng, points = np.random.default_rng(21), []
    single = network.to(torch.float32)
    for input_set, _ in prop.groups()[:MOST_SETS]:
        part = rng.random(input_set.size)
        box_point = input_set.lower * (1 - part) + input_set.upper * part
        x = input_set.closest(box_point).reshape(network.input_shape)
        with np.errstate(over="ignore"):
            seen = torch.from_numpy(x.astype(np.float32))
        if bool(single.forward(seen).isfinite().all()):
            points.append(x)
    return points


def anywhere(network: Network) -> list[NDArray[np.float64]]:
    """Random points of usual input ranges, for when there is no input set."""
    rng = np.random.default_rng(20)
    boxes = [(0.0, 1.0), (0.0, 1.0), (-1.0, 1.0), (-10.0, 10.0)]
    return [rng.uniform(low, high, network.input_shape) for low, high in boxes]


def _session(content: bytes, directory: Path | None) -> InferenceSession:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    if directory is not None:
        folder = "session.model_external_initializers_file_folder_path"
        options.add_session_config_entry(folder, str(directory.resolve()))
    try:
        return ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    # onnxruntime's exceptions have no common base; all of them mean that it cannot run this model.
    except Exception as error:  # noqa: BLE001
        raise _not_comparable(error) from None


def _difference(session: InferenceSession, network: Network, x: NDArray[np.floating]) -> float:
    try:
        # A number without axes is a vector of one in the network.
        given = x if session.get_inputs()[0].shape else x.reshape(())
        (output,) = session.run(None, {session.get_inputs()[0].name: given})
    except Exception as error:  # noqa: BLE001  as above
        raise _not_comparable(error) from None
    theirs = torch.from_numpy(np.atleast_1d(np.asarray(output, dtype=np.float64)))
    point = torch.from_numpy(x.astype(np.float64))
    ours = network.forward(point)
    if theirs.shape != ours.shape:
        raise UnsupportedModel(
            f"onnxruntime's output has shape {tuple(theirs.shape)}, the network as it was read "
            f"{tuple(ours.shape)}; please report the model"
        )
    distance = (theirs - ours).abs()
    allowed = _tolerance(network, point, ours) * (_HALF if x.dtype == np.float16 else 1.0)
    if not bool((distance <= allowed).all()):
        allowed = allowed + OF_FLOAT32 * _float32_noise(network, point, ours)
    if not bool((distance <= allowed).all()):
        worst = int((distance - allowed).nan_to_num(nan=torch.inf).argmax())
        raise UnsupportedModel(
            f"the network as it was read yields {float(ours.reshape(-1)[worst]):.9g} where "
            f"onnxruntime yields {float(theirs.reshape(-1)[worst]):.9g} (output {worst} at a "
            "random input); please report the model, or load it unchecked"
        )
    return float(distance.max()) if distance.numel() else 0.0


def _tolerance(network: Network, x: Tensor, y: Tensor) -> Tensor:
    """1e-4·|y| + 1e-5·(|W_n||z_{n−1}| + |b_n|)."""
    zhat = network.trace(x)
    last = network.nodes[network.n]
    sizes: list[Tensor] = []
    for edge in last.edges:
        activation = network.nodes[edge.source].activation
        z = zhat[edge.source] if activation is None else activation.value(zhat[edge.source])
        sizes.append(edge.map.abs_linear(z.abs()))
        if edge.map.bias is not None:
            sizes.append(edge.map.bias.abs().expand(last.shape))
    return RELATIVE * y.abs() + OF_LAST_LAYER * sum_of(sizes)


def _float32_noise(network: Network, x: Tensor, y: Tensor) -> Tensor:
    """The largest |y_32 − y|, as one number."""
    rounded = network.to(torch.float32).forward(x.to(torch.float32))
    return (rounded.double() - y).abs().max()


def _not_comparable(error: Exception) -> UnsupportedModel:
    reason = str(error).partition("\n")[0]
    return UnsupportedModel(
        f"onnxruntime cannot run the model, so its reading cannot be checked ({reason}); "
        "load it unchecked"
    )
