"""An activation of your own: one class says what it is, and every bound and search can handle it."""

from dataclasses import dataclass

import torch
from torch import Tensor

import anybound
from anybound.model.activations.s_shaped import SShaped
from anybound.model.affine.dense import Dense
from anybound.model.network import Edge, Network, Node


@dataclass(frozen=True)
class BipolarSigmoid(SShaped):
    """σ(x) = 2/(1 + e^{−x}) − 1 = tanh(x/2), of the form m + h·tanh(x/κ) with h = 1 and κ = 2."""

    stretch, limits = 2.0, (-1.0, 1.0)  # κ; m ± h

    def value(self, x: Tensor) -> Tensor:
        return torch.tanh(x / 2)

    def slope(self, x: Tensor) -> Tensor:
        return 2 * torch.sigmoid(x) * torch.sigmoid(-x)


torch.manual_seed(0)
first, last = torch.nn.Linear(3, 16).double(), torch.nn.Linear(16, 2).double()
maps = [Dense.of(layer.weight.detach(), layer.bias.detach()) for layer in (first, last)]
hidden = Node((16,), (Edge(0, maps[0]),), BipolarSigmoid())
network = Network((Node((3,)), hidden, Node((2,), (Edge(1, maps[1]),))))

region = anybound.Box.ball(torch.zeros(1, 1, 3, dtype=torch.float64), 1.0)
found = anybound.bounds(network, region)
outputs = network.forward(region.sample(10_000, torch.Generator().manual_seed(0)))[0]
assert (outputs >= found.lower).all()
assert (outputs <= found.upper).all()
for k, (low, high) in enumerate(zip(found.lower, found.upper, strict=True)):
    seen = f"[{outputs[:, k].min():+.4f}, {outputs[:, k].max():+.4f}]"
    print(f"output {k}: proved [{low:+.4f}, {high:+.4f}], seen {seen}")
