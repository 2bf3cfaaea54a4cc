"""Affine maps: z ↦ W z + b with exact adjoints, one kind per file."""

from anybound.model.affine.add import add
from anybound.model.affine.chain import Chain
from anybound.model.affine.conv import Conv
from anybound.model.affine.conv_transpose import ConvTranspose
from anybound.model.affine.dense import Dense
from anybound.model.affine.fuse import compose
from anybound.model.affine.map import EXACT, AffineMap, Shape, WeightError
from anybound.model.affine.pool import average_pool
from anybound.model.affine.scale import Scale
from anybound.model.affine.structural import Gather, Identity, Pad, Permute, Reshape, Sum

__all__ = [
    "EXACT",
    "AffineMap",
    "Chain",
    "Conv",
    "ConvTranspose",
    "Dense",
    "Gather",
    "Identity",
    "Pad",
    "Permute",
    "Reshape",
    "Scale",
    "Shape",
    "Sum",
    "WeightError",
    "add",
    "average_pool",
    "compose",
]
