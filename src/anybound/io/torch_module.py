"""PyTorch modules, by way of ONNX: one reader serves both.

The module is traced at an example in evaluation mode, exported without any folding of its weights
(the exporter would fold in float32), and read like a file. The network is then compared with the
module itself.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import onnx
import torch
from torch import Tensor, nn

from anybound.errors import InvalidInput, UnsupportedModel
from anybound.io.onnx_reader import from_proto
from anybound.model.network import Network

_OPSET = 17
_POINTS = 3
_RELATIVE, _OF_LARGEST = 1e-4, 1e-4


def from_torch(module: nn.Module, example_input: Tensor, *, check: bool = True) -> Network:
    """The network that `module` is in evaluation mode.

    `example_input` is one input, with a batch axis of length 1 if the module expects a batch.
    Training flags, gradient flags and devices are left as they are. ONNX keeps
    attributes, such as the slope of a leaky ReLU, in float32, whatever the module's dtype.

    >>> import anybound, torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    >>> anybound.from_torch(model, torch.zeros(1, 4))
    Network([1, 4] → ReLU [8] → [1, 2]; 8 hidden neurons)
    """
    if not isinstance(module, nn.Module):
        raise InvalidInput(f"the module is a {type(module).__name__}; expected a torch.nn.Module")
    if not isinstance(example_input, Tensor):
        raise InvalidInput(
            f"the example input is a {type(example_input).__name__}; expected a tensor that the "
            "module can be called with"
        )
    if not example_input.is_floating_point():
        raise InvalidInput(f"the example input is of {example_input.dtype}; expected real numbers")
    device = next((p.device for p in module.parameters()), example_input.device)
    example = example_input.detach().to(device)
    with _evaluation(module), torch.no_grad():
        network = from_proto(_exported(module, example)).network
        if check:
            _compare(module, network, example)
    return network


@contextmanager
def _evaluation(module: nn.Module) -> Iterator[None]:
    """Evaluation mode; afterwards every sub-module is in the mode that it was in."""
    before = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in before:
            part.training = training


def _exported(module: nn.Module, example: Tensor) -> onnx.ModelProto:
    buffer = io.BytesIO()
    try:
        with warnings.catch_warnings():
            # The exporter that needs no further package is called legacy.
            warnings.simplefilter("ignore")
            torch.onnx.export(
                module,
                (example,),
                buffer,  # type: ignore[arg-type]  # this exporter writes to buffers, too
                dynamo=False,
                opset_version=_OPSET,
                training=torch.onnx.TrainingMode.PRESERVE,
                do_constant_folding=False,
                input_names=["input"],
                output_names=["output"],
            )
    except (RuntimeError, ValueError, TypeError) as error:
        # What a module may do while it is traced has no bounds; this is what the tracer says of it.
        reason = str(error).strip().partition("\n")[0]
        raise UnsupportedModel(
            f"{type(module).__name__} cannot be exported to ONNX: {reason}; check that "
            "module(example_input) works and that it returns one tensor"
        ) from None
    return onnx.load_model_from_string(buffer.getvalue())


def _compare(module: nn.Module, network: Network, example: Tensor) -> None:
    """Equal outputs at the example and around it, up to the module's own rounding."""
    generator = torch.Generator(example.device).manual_seed(20)
    for point in range(_POINTS):
        noise = torch.randn(
            example.shape, generator=generator, dtype=example.dtype, device=example.device
        )
        x = example + point * noise
        theirs = module(x).detach().cpu().double()
        theirs = theirs.reshape(theirs.shape or (1,))  # one number is a vector in the network
        ours = network.forward(x.cpu().double().reshape(network.input_shape))
        if theirs.shape != ours.shape:
            raise UnsupportedModel(
                f"the module's output has shape {tuple(theirs.shape)}, the network that was read "
                f"{tuple(ours.shape)}; please report it"
            )
        allowed = _RELATIVE * theirs.abs() + _OF_LARGEST * theirs.abs().max()
        if not bool(((theirs - ours).abs() <= allowed).all()):
            raise UnsupportedModel(
                "the network that was read differs from the module near the example input by "
                f"{float((theirs - ours).abs().max()):.3g}; does its computation depend on the "
                "values of its input?"
            )
