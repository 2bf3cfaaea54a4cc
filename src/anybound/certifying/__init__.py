"""From a network and a property to a certificate that `anybound_check` accepts.

    intermediate bounds, computed by the checker's own arithmetic from slopes that are proposed here
    → a search between these bounds, whose leaves close by the numbers that will be written
    → in deep networks, where that takes long: trees for hidden neurons, and the search again
    → the tree of splits, slopes and multipliers as a file

Nothing is written that the checker would refuse.
"""

from anybound.certifying.certifier import Certifier

__all__ = ["Certifier"]
