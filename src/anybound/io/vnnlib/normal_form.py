"""The disjunctive normal form of a formula, one term at a time.

Distributing `and` over `or` multiplies; so the terms are counted first (products over choices,
sums over options) and refused beyond a limit, then generated lazily. Leaves outside every choice
are never copied: a term lists only what its options add to the leaves of the root.
"""

from collections.abc import Iterator

from anybound.errors import UnsupportedProperty
from anybound.io.vnnlib.formula import Choice, Conjunction, Leaf, Never
from anybound.spec.property import MAX_CLAUSES

__all__ = ["MAX_LEAVES", "terms"]

MAX_LEAVES = 5_000_000
_SATURATED = 10**12  # counts beyond are not told apart

# Linked lists (first, rest), so that terms share what they have in common.
_Pending = tuple[Choice, "_Pending | None"]
_Chosen = tuple[list[Leaf], "_Chosen | None"]


def terms(root: Conjunction, name: str) -> Iterator[list[Leaf]]:
    """What each term adds to `root.leaves`, in the order of the text; without those never true."""
    clauses, leaves = _size(root)
    if clauses > MAX_CLAUSES:
        about = f"{clauses}" if clauses < _SATURATED else f"more than {_SATURATED}"
        raise UnsupportedProperty(f"{name}: {about} clauses; the limit is {MAX_CLAUSES}")
    if leaves > MAX_LEAVES:
        raise UnsupportedProperty(
            f"{name}: {clauses} clauses of together {leaves} constraints; the limit is {MAX_LEAVES}"
        )
    return _generate(root)


def _generate(root: Conjunction) -> Iterator[list[Leaf]]:
    work: list[tuple[_Pending | None, _Chosen | None]] = [(_ahead(root, None), None)]
    while work:
        pending, chosen = work.pop()
        if pending is None:
            yield _collected(chosen)
            continue
        choice, rest = pending
        work.extend(
            (_ahead(option, rest), (option.leaves, chosen))
            for option in reversed(choice.options)
            if not any(isinstance(leaf, Never) for leaf in option.leaves)
        )


def _ahead(conjunction: Conjunction, rest: _Pending | None) -> _Pending | None:
    """The choices of a conjunction, to be made before the rest."""
    for choice in reversed(conjunction.choices):
        rest = (choice, rest)
    return rest


def _collected(chosen: _Chosen | None) -> list[Leaf]:
    parts: list[list[Leaf]] = []
    while chosen is not None:
        leaves, chosen = chosen
        parts.append(leaves)
    return [leaf for leaves in reversed(parts) for leaf in leaves]


def _size(root: Conjunction) -> tuple[int, int]:
    """How many terms there are and how many leaves they hold beyond the root's, saturated."""
    nodes: list[Conjunction] = [root]
    for node in nodes:  # grows while it is read: parents come before children
        nodes.extend(option for choice in node.choices for option in choice.options)
    sizes: dict[int, tuple[int, int]] = {}
    for node in reversed(nodes):
        count, leaves = 1, 0 if node is root else len(node.leaves)
        for choice in node.choices:
            options = [sizes[id(option)] for option in choice.options]
            more, more_leaves = (sum(column) for column in zip(*options, strict=True))
            # Every term so far is joined to every term of the choice.
            leaves = min(leaves * more + more_leaves * count, _SATURATED)
            count = min(count * more, _SATURATED)
        sizes[id(node)] = (count, leaves)
    return sizes[id(root)]
