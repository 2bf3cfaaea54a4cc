"""An input set of your own: few pixels may change, each by no more than the radius."""

from fractions import Fraction

import torch
from torch import Tensor

import anybound
from anybound.model.domains.ball import Ball
from anybound.model.domains.box import Box


class FewPixels(Ball):
    """‖v‖ = max(max_i |v_i|, Σ_i |v_i| / 3): its ball is the hull of changes of at most 3 pixels."""

    norm = staticmethod(lambda v: v.abs().amax(-1).maximum(v.abs().sum(-1) / 3))
    dual_norm = staticmethod(lambda g: g.abs().topk(3).values.sum(-1))  # the 3 largest |g_i|

    @staticmethod
    def steepest(g: Tensor) -> Tensor:
        return -g.sign() * torch.zeros_like(g).scatter(-1, g.abs().topk(3).indices, 1)

    @staticmethod
    def exceeds(v: list[Fraction], radius: Fraction) -> bool:
        return max(map(abs, v)) > radius or sum(map(abs, v)) > 3 * radius

    def meet(self, g: Tensor, limits: Box) -> tuple[Tensor, Tensor]:
        return limits.project(self.argmin(g)).flatten(2).double(), g.flatten(2).double()

    def reach(self, gap: Tensor) -> Tensor:
        return self.radius.double().unsqueeze(-1).expand_as(gap)


network = anybound.load(anybound.bundled("digits_conv.onnx"))
image = torch.zeros(1, 1, 1, 1, 8, 8, dtype=torch.float64)
image[..., 1:7, 3:5] = 1  # somebody drew the digit 1; by how much is it more a 1 than a 7?
for e in (0.1, 0.2, 0.3):
    for region in (FewPixels(image, image.new_full((1, 1), e)), Box.ball(image, e)):
        low = anybound.bounds(network, region, rows=[[0, 1, 0, 0, 0, 0, 0, -1, 0, 0]]).lower
        print(f"pixels within ±{e}, {type(region).__name__}: at least {float(low):.3f}")
