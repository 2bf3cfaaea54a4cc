"""The parse tree: symbols and parenthesised forms, each with its place.

It knows nothing of what a form means, so that it serves VNN-LIB 1.0 and 2.0 alike. Nothing here
recurses: forms may be nested to any depth.
"""

from dataclasses import dataclass

from anybound.io.vnnlib.tokens import Source, excerpt, tokens

__all__ = ["Form", "Node", "Symbol", "parse", "parse_one", "show"]


@dataclass(slots=True, eq=False, repr=False)
class Symbol:
    """A single word: a name, an operator or a number."""

    text: str
    offset: int


@dataclass(slots=True, eq=False, repr=False)
class Form:
    """What stands between a parenthesis at `offset` and its partner."""

    items: list["Node"]
    offset: int

    @property
    def head(self) -> str:
        """The first word; empty if there is none."""
        first = self.items[0] if self.items else None
        return first.text if isinstance(first, Symbol) else ""

    @property
    def arguments(self) -> list["Node"]:
        """All but the head."""
        return self.items[1:]


Node = Symbol | Form


def parse(source: Source) -> list[Node]:
    """All nodes of a text."""
    nodes: list[Node] = []
    position = 0
    while (parsed := parse_one(source, position)) is not None:
        node, position = parsed
        nodes.append(node)
    return nodes


def parse_one(source: Source, start: int) -> tuple[Node, int] | None:
    """The node that begins at or after `start`, and where it ends; None at the end of the text."""
    open_forms: list[Form] = []
    for text, begin, end in tokens(source, start):
        if text == "(":
            open_forms.append(Form([], begin))
            continue
        if text != ")":
            node: Node = Symbol(text, begin)
        elif open_forms:
            node = open_forms.pop()
        else:
            raise source.invalid(begin, "')' closes nothing; remove it")
        if not open_forms:
            return node, end
        open_forms[-1].items.append(node)
    if open_forms:
        raise source.invalid(open_forms[-1].offset, "'(' is never closed; is the file complete?")
    return None


def show(node: Node) -> str:
    """The beginning of a node, for messages."""
    if isinstance(node, Symbol):
        return excerpt(node.text)
    return excerpt(f"({node.head} ...)" if len(node.items) > 1 else f"({node.head})")
