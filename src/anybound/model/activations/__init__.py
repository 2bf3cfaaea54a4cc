"""Activations: elementwise σ, one kind per file."""

from anybound.model.activations.activation import (
    Activation,
    Facet,
    Minimum,
    Relaxation,
    check_bounds,
)
from anybound.model.activations.identity import Identity
from anybound.model.activations.relu import ReLU

__all__ = [
    "Activation",
    "Facet",
    "Identity",
    "Minimum",
    "ReLU",
    "Relaxation",
    "check_bounds",
]
