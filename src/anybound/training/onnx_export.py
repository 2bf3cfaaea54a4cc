"""A trained module as an ONNX graph, built directly from its weights: one node per operation.

The graph has one input "input" of shape [1, C, H, W] and one output "output" of shape [1, classes].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from anybound.training.architectures import Normalise, Residual
from anybound.training.datasets.dataset import Shape

OPSET = 17
_IR_VERSION = 8
_WEIGHT = "weight_"


class _Graph:
    """Nodes and weights collected so far; every method returns the name of the tensor it makes."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def add(self, operator: str, inputs: list[str], **attributes: Any) -> str:  # as in onnx
        name = f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name=name, **attributes))
        return name

    def weight(self, tensor: Tensor) -> str:
        name = f"{_WEIGHT}{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(tensor.detach().numpy(), name))
        return name

    def constant(self, name: str, tensor: Tensor) -> str:
        self.weights.append(numpy_helper.from_array(tensor.numpy(), name))
        return name


def to_onnx(model: nn.Sequential, shape: Shape, classes: int, name: str) -> onnx.ModelProto:
    """The model in ONNX's intermediate representation, checked."""
    graph = _Graph()
    last = _add_module(graph, model, "input")
    graph.nodes[-1].output[0] = "output"
    if graph.nodes[-1].name != last:
        raise ValueError(f"network {name!r} ends in no operation")
    proto = helper.make_model(
        helper.make_graph(
            graph.nodes,
            name,
            [helper.make_tensor_value_info("input", TensorProto.FLOAT, [1, *shape])],
            [helper.make_tensor_value_info("output", TensorProto.FLOAT, [1, classes])],
            graph.weights,
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=_IR_VERSION,
        producer_name="anybound",
    )
    onnx.checker.check_model(proto, full_check=True)
    return proto


def _add_module(graph: _Graph, module: nn.Module, source: str) -> str:
    try:
        export = _EXPORTERS[type(module)]
    except KeyError:
        known = ", ".join(sorted(kind.__name__ for kind in _EXPORTERS))
        raise ValueError(f"cannot export {type(module).__name__}; known are {known}") from None
    return export(graph, module, source)


def _sequential(graph: _Graph, module: nn.Sequential, source: str) -> str:
    for child in module:
        source = _add_module(graph, child, source)
    return source


def _residual(graph: _Graph, module: Residual, source: str) -> str:
    body = _add_module(graph, module.body, source)
    shortcut = _add_module(graph, module.shortcut, source)
    return graph.add("Relu", [graph.add("Add", [body, shortcut])])


def _linear(graph: _Graph, module: nn.Linear, source: str) -> str:
    return graph.add(
        "Gemm", [source, graph.weight(module.weight), graph.weight(module.bias)], transB=1
    )


def _conv2d(graph: _Graph, module: nn.Conv2d, source: str) -> str:
    if not isinstance(module.padding, tuple) or module.bias is None:
        raise ValueError(f"cannot export {module}; give a numeric padding and a bias")
    return graph.add(
        "Conv",
        [source, graph.weight(module.weight), graph.weight(module.bias)],
        kernel_shape=list(module.kernel_size),
        strides=list(module.stride),
        pads=[*module.padding, *module.padding],
        dilations=list(module.dilation),
        group=module.groups,
    )


def _normalise(graph: _Graph, module: Normalise, source: str) -> str:
    centred = graph.add("Sub", [source, graph.constant("mean", module.mean)])
    return graph.add("Div", [centred, graph.constant("std", module.std)])


def _plain(operator: str) -> Callable[[_Graph, nn.Module, str], str]:
    return lambda graph, _, source: graph.add(operator, [source])


# A handler takes the very type it is listed under, which a mapping's type cannot express.
_EXPORTERS: Mapping[type[nn.Module], Callable[..., str]] = MappingProxyType(
    {
        nn.Sequential: _sequential,
        Normalise: _normalise,
        Residual: _residual,
        nn.Linear: _linear,
        nn.Conv2d: _conv2d,
        nn.Flatten: _plain("Flatten"),
        nn.ReLU: _plain("Relu"),
        nn.Sigmoid: _plain("Sigmoid"),
    }
)


def load_weights(model: nn.Sequential, proto: onnx.ModelProto) -> None:
    """Give `model` the weights of a graph that `to_onnx` made of a module built alike.

    `to_onnx` visits modules, and so writes weights, in the order of `model.parameters()`.
    """
    parameters = list(model.parameters())
    weights = [w for w in proto.graph.initializer if w.name.startswith(_WEIGHT)]
    shapes = [tuple(parameter.shape) for parameter in parameters]
    if shapes != [tuple(weight.dims) for weight in weights]:
        raise ValueError(f"{proto.graph.name!r} has other weights than the model: {shapes}")
    with torch.no_grad():
        for parameter, weight in zip(parameters, weights, strict=True):
            parameter.copy_(torch.from_numpy(numpy_helper.to_array(weight).copy()))
