"""Reading VNN-LIB 1.0: declarations and assertions, statement by statement, into a property.

Real files are hundreds of thousands of declarations `(declare-const X_12 Real)` and bounds
`(assert (<= X_12 0.5))` with a small formula at the end. One pattern recognises these two forms
and goes the short way; whatever it does not match is parsed as an s-expression. Both lead to the
same borders.
"""

import re
from dataclasses import dataclass, field

from anybound.io.vnnlib.arithmetic import Scope
from anybound.io.vnnlib.boxes import Border, Borders, Boxes
from anybound.io.vnnlib.formula import Bound, Conjunction, Leaf, Never, Row, add_assertion
from anybound.io.vnnlib.normal_form import terms
from anybound.io.vnnlib.outputs import Outputs
from anybound.io.vnnlib.syntax import Form, Node, Symbol, parse_one, show
from anybound.io.vnnlib.tokens import Source
from anybound.spec.property import Clause, Property

__all__ = ["parse_vnnlib"]

# As strict as the general way, or stricter: a number has few digits, a name no leading zeros.
_PLAIN = re.compile(
    r"""
    \s* (?:
        \( \s* assert \s* (\( \s* [<>]) = \s+ X_(0|[1-9]\d{0,8}) \s+
            ( [-+]? \d{1,40} (?:\.\d{0,40})? (?:[eE][-+]?\d{1,3})? ) \s* \) \s* \)
      | \( \s* declare-const \s+ ([XY])_(0|[1-9]\d{0,8}) \s+ Real \s* \)
      | ;[^\n\r]*
      | (\S)  # anything else
      | \Z
    )
    """,
    re.ASCII | re.VERBOSE,
)
_BOUND, _DECLARATION, _OTHER = 3, 5, 6  # the last group of each form
_IGNORED = ("set-logic", "set-info", "set-option", "check-sat", "get-model", "exit")
_VERSION_2 = ("vnnlib-version", "declare-network")


def parse_vnnlib(text: str, name: str = "<text>", *, shortcut: bool = True) -> Property:
    """The property that a text in VNN-LIB 1.0 states; `shortcut` changes the speed only."""
    reader = _Reader(Scope(Source(text, name)))
    position: int | None = 0
    while position is not None:
        if shortcut:
            position = reader.read_plain(position)
        position = reader.read_statement(position)
    return reader.property()


@dataclass(frozen=True)
class _Reader:
    """What the statements so far have said."""

    scope: Scope
    borders: Borders = field(default_factory=Borders)
    root: Conjunction = field(default_factory=Conjunction)

    def read_plain(self, position: int) -> int:
        """Read plain statements up to the first of another form; where that begins."""
        text = self.scope.source.text
        sides = {"<": self.borders.upper, ">": self.borders.lower}
        declared = {"X": self.scope.inputs, "Y": self.scope.outputs}
        inputs = self.scope.inputs
        for match in _PLAIN.finditer(text, position):
            form = match.lastindex
            if form == _BOUND:
                opening, digits, value = match.group(1, 2, 3)
                relation = opening[-1]
                index, border = int(digits), Border(value, False, match.start(1))
                if index not in inputs:
                    return match.start()
                if index in sides[relation]:
                    self.borders.add(index, border, upper=relation == "<")
                else:
                    sides[relation][index] = border
            elif form == _DECLARATION:
                kind, digits = match.group(4, 5)
                index = int(digits)
                if index in declared[kind]:
                    return match.start()
                declared[kind][index] = match.start(4)
            elif form == _OTHER:
                return match.start()
        return len(text)

    def read_statement(self, position: int) -> int | None:
        """Read one statement of any form; where it ends, None at the end of the text."""
        parsed = parse_one(self.scope.source, position)
        if parsed is None:
            return None
        form, end = parsed
        self._understand(form)
        return end

    def _understand(self, form: Node) -> None:
        source = self.scope.source
        if not isinstance(form, Form) or not form.head:
            raise source.invalid(form.offset, f"{show(form)}; expected (declare-const or (assert")
        if form.head in _VERSION_2:
            message = f"({form.head} ...) is VNN-LIB 2.0; only 1.0 is supported yet"
            raise source.unsupported(form.offset, message)
        if form.head == "assert":
            if len(form.items) != 2:
                raise source.invalid(form.offset, "(assert ...) takes one formula")
            add_assertion(form.items[1], self.root, self.scope)
        elif form.head in ("declare-const", "declare-fun"):
            self._declare(form)
        elif form.head not in _IGNORED:
            raise source.unsupported(form.offset, f"{show(form)} is not a statement of VNN-LIB 1.0")

    def _declare(self, form: Form) -> None:
        """(declare-const name Real) or (declare-fun name () Real)."""
        name, *rest = form.arguments or [form]
        if form.head == "declare-fun" and len(rest) == 2:
            no_arguments = rest.pop(0)
            if not isinstance(no_arguments, Form) or no_arguments.items:
                raise self.scope.source.unsupported(form.offset, "a function with arguments")
        if not isinstance(name, Symbol) or len(rest) != 1 or not isinstance(rest[0], Symbol):
            raise self.scope.source.invalid(
                form.offset, f"({form.head} ...): expected name and Real"
            )
        if rest[0].text != "Real":
            message = f"{name.text} has type {show(rest[0])}; only Real is supported"
            raise self.scope.source.unsupported(rest[0].offset, message)
        self.scope.declare(name.text, name.offset)

    def property(self) -> Property:
        """The property of all statements."""
        source = self.scope.source
        n_in = self._count(self.scope.inputs, "X")
        n_out = self._count(self.scope.outputs, "Y")
        for bound in _bounds(self.root.leaves):
            border = Border(bound.value, bound.strict, bound.offset)
            self.borders.add(bound.index, border, upper=bound.upper)
        never = next((leaf for leaf in self.root.leaves if isinstance(leaf, Never)), None)
        if never is not None:
            raise source.invalid(never.offset, "this never holds: the property would be empty")
        boxes = Boxes(source, self.borders, n_in)
        outputs = Outputs(source, _rows(self.root.leaves), n_out)
        clauses = []
        for term in terms(self.root, source.name):
            box = boxes.box(_bounds(term))
            if box is not None:
                clauses.append(Clause(box, outputs.half_spaces(_rows(term))))
        if not clauses:
            raise source.invalid(len(source.text), "no clause has an input: every box is empty")
        return Property(tuple(clauses), source.name)

    def _count(self, declared: dict[int, int], kind: str) -> int:
        """How many variables there are, being numbered without gaps."""
        source = self.scope.source
        if not declared:
            raise source.invalid(len(source.text), f"no variable {kind}_i is declared")
        last = max(declared)
        if last + 1 != len(declared):
            missing = next(i for i in range(last) if i not in declared)
            message = f"{kind}_{last} is declared, but {kind}_{missing} is not"
            raise source.invalid(declared[last], message)
        return len(declared)


def _bounds(leaves: list[Leaf]) -> list[Bound]:
    return [leaf for leaf in leaves if isinstance(leaf, Bound)]


def _rows(leaves: list[Leaf]) -> list[Row]:
    return [leaf for leaf in leaves if isinstance(leaf, Row)]
