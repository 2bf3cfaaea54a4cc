"""One instance of a run: what is behind its verdict."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from anybound.drawing.charts import Axis, Series, chart
from anybound.drawing.markup import Html, joined, tag
from anybound.report.command import command_of
from anybound.report.exhibit import Exhibit
from anybound.report.run import Instance, Point

__all__ = ["certificate_state", "detail", "number"]

_MOST_POINTS = 150
_MOST_CLAUSES = 24
_LEAST = 1e-300


def detail(instance: Instance, exhibit: Exhibit | None, exhibit_note: str) -> Html:
    """All that is known of an instance."""
    witness = None if instance.witness is None else instance.witness.input
    images = None if exhibit is None else exhibit.images(witness)
    return joined(
        _error(instance),
        _facts(instance),
        images,
        _charts(instance, exhibit, exhibit_note),
        _clauses(instance),
        _plan(instance),
        _command(command_of(instance)),
    )


def certificate_state(instance: Instance) -> str:
    """In words; only what holds has a certificate."""
    if instance.certified is None:
        return "not asked"
    return "checked" if instance.certified else "none"


def number(value: float) -> str:
    """A bound, or that there is none. The least positive number stands for: positive, no more known."""
    if 0 < value < _LEAST:
        return "> 0"
    return f"{value:.6g}" if math.isfinite(value) else "–"


def _error(instance: Instance) -> Html | None:
    if instance.error is None:
        return None
    return tag("p", tag("b", "Failed: "), instance.error, class_="alarm")


def _facts(instance: Instance) -> Html:
    last = instance.trace[-1] if instance.trace else None
    facts = {
        "verdict": instance.verdict + (f": {instance.reason}" if instance.reason else ""),
        "certificate": certificate_state(instance),
        "time": f"{instance.seconds:.2f} s ({instance.cpu_seconds:.2f} s CPU)",
        "phases": ", ".join(f"{name} {s:.2f} s" for name, s in instance.phases.items()),
        "smallest margin": _margin(instance),
        "tree": _tree(instance, last),
        "witness": _witness(instance),
    }
    return _list(facts)


def _plan(instance: Instance) -> Html | None:
    """What was chosen, by whoever ran it or by the planner."""
    if not instance.plan:
        return None
    return tag("details", tag("summary", "How it was decided"), _list(instance.plan))


def _list(facts: Mapping[str, str]) -> Html:
    items = ((tag("dt", name), tag("dd", text)) for name, text in facts.items() if text)
    return tag("dl", *(part for pair in items for part in pair))


def _margin(instance: Instance) -> str:
    if not instance.clauses:
        return ""
    upper = min(clause.upper for clause in instance.clauses)
    proved = number(instance.margin)
    least = proved if proved.startswith(">") else f"≥ {proved}"
    known = [least] if math.isfinite(instance.margin) else []
    known += [f"{number(upper)} was seen"] if math.isfinite(upper) else []
    return f"{'; '.join(known) or 'nothing is known'} (of {len(instance.clauses)} clauses)"


def _tree(instance: Instance, last: Point | None) -> str:
    if instance.subproblems == 0:
        return "decided without a search" if instance.is_solved else "no search"
    left = "" if last is None else f", {last.open:,} open at the end"
    return f"{instance.subproblems:,} sub-problems{left}"


def _witness(instance: Instance) -> str:
    if instance.witness is None:
        return ""
    output = ", ".join(number(y) for y in list(instance.witness.output)[:20])
    return f"in clause {instance.witness.clause}; output {output}"


def _charts(instance: Instance, exhibit: Exhibit | None, note: str) -> Html:
    parts = list(_curves(_thinned(instance.trace)))
    layers = None if exhibit is None else exhibit.layers()
    parts += [layers] if layers is not None else []
    parts += [tag("p", note, class_="quiet")] if note else []
    return tag("div", *parts, class_="charts")


def _curves(trace: Sequence[Point]) -> Iterable[Html]:
    """The bound and the tree over time."""
    if len(trace) < 2:
        return
    lower = [(p.seconds, p.lower) for p in trace if math.isfinite(p.lower)]
    seconds = Axis.around("seconds", [0.0, *(p.seconds for p in trace)])
    if lower:
        values = Axis.around("worst lower bound", [0.0, *(b for _, b in lower)])
        yield chart(
            "Bound over time",
            seconds,
            values,
            [Series("worst open", lower, stairs=True)],
            zero=True,
        )
    if trace[-1].closed > 1 or trace[-1].open > 1:
        counts = [
            Series("open", [(p.seconds, p.open) for p in trace]),
            Series("closed", [(p.seconds, p.closed) for p in trace]),
        ]
        most = Axis.around("sub-problems", [0.0, *(c for s in counts for _, c in s.points)])
        yield chart("Sub-problems over time", seconds, most, counts)


def _thinned(trace: Sequence[Point]) -> Sequence[Point]:
    step = -(-len(trace) // _MOST_POINTS)
    return trace if step <= 1 else trace[::-step][::-1]


def _clauses(instance: Instance) -> Html | None:
    """The bounds of every clause, the smallest margins first."""
    if len(instance.clauses) < 2:
        return None
    order = sorted(range(len(instance.clauses)), key=lambda i: instance.clauses[i].lower)
    rows = [
        tag(
            "tr",
            tag("td", i),
            tag("td", number(instance.clauses[i].lower)),
            tag("td", number(instance.clauses[i].upper)),
        )
        for i in order[:_MOST_CLAUSES]
    ]
    more = len(order) - len(rows)
    head = tag("tr", tag("th", "clause"), tag("th", "margin ≥"), tag("th", "margin seen"))
    table = tag("table", tag("thead", head), tag("tbody", *rows), class_="numbers")
    rest = tag("p", f"and {more:,} more", class_="quiet") if more else None
    table = tag("div", table, class_="wide")
    return tag("details", tag("summary", f"{len(order):,} clauses"), table, rest)


def _command(line: str) -> Html:
    button = tag("button", "Copy", type="button", class_="copy")
    return tag("div", tag("code", line), button, class_="command")
