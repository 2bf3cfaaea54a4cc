"""The passes that every network read goes through, in order."""

from __future__ import annotations

from anybound.model.network import Network
from anybound.model.passes.inline import inline
from anybound.model.passes.prune import prune


def normalise(network: Network) -> Network:
    """The same function with fewer nodes and edges."""
    return prune(inline(prune(network)))
