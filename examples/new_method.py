"""A bounding method of your own: every ρ_i moves by a share of itself, up or down as ∇q says."""

from dataclasses import dataclass

import anybound
from anybound.bound.backward import Start
from anybound.bound.decomposition import Decomposition
from anybound.bound.method import Method, Proposal
from anybound.layers import Layers


@dataclass(frozen=True)
class Shares(Method[Layers]):  # its state is ρ alone, [D, R, neurons]: D sub-problems of R rows
    """ρ^{t+1} = ρ^t + share·|q|/(dᵀ∇q)·d, where d = |ρ^t|·sign(∇q): Polyak's steps from WK's ρ."""

    share: float = 0.1
    iterations: int = 50

    def steps(self, dual: Decomposition) -> int:
        return self.iterations

    def init(self, dual: Decomposition, warm: Layers | None) -> Layers:
        return Start.WK.rho(dual) if warm is None else warm

    def step(self, dual: Decomposition, rho: Layers) -> Layers:
        primal = dual.inner_min(rho)  # q, and ∇q = ẑ_B − ẑ_A
        d = rho.data.abs() * primal.mismatch.sign()
        slope = (d * primal.mismatch).sum(-1).clamp(min=1e-12)  # dᵀ∇q, [D, R]
        return rho.like(rho.data + (self.share * primal.value.abs() / slope).unsqueeze(-1) * d)

    def propose(self, dual: Decomposition, rho: Layers) -> Proposal:
        return Proposal(rho, dual.value(rho))


net = anybound.load(anybound.bundled("digits_conv.onnx"))
unsafe = anybound.read_vnnlib(anybound.bundled("digits_conv_image4_eps0.05.vnnlib")).clauses[0]
for method in ("interval", "wk", Shares(), "slopes"):
    found = anybound.bounds(net, unsafe.input_set, unsafe.matrix, method=method, intermediate="wk")
    print(f"the margin is at least {float(found.lower):8.4f}, by {method}")
