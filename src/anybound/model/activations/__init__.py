"""Activations: elementwise σ, one kind per file."""

from anybound.model.activations.abs import Abs
from anybound.model.activations.activation import (
    Activation,
    Facet,
    Minimum,
    Relaxation,
    check_bounds,
)
from anybound.model.activations.clip import Clip
from anybound.model.activations.identity import Identity
from anybound.model.activations.leaky_relu import LeakyReLU, PReLU
from anybound.model.activations.relu import ReLU
from anybound.model.activations.sigmoid import Sigmoid
from anybound.model.activations.tanh import Tanh

__all__ = [
    "Abs",
    "Activation",
    "Clip",
    "Facet",
    "Identity",
    "LeakyReLU",
    "Minimum",
    "PReLU",
    "ReLU",
    "Relaxation",
    "Sigmoid",
    "Tanh",
    "check_bounds",
]
