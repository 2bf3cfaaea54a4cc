"""Intervals side by side as one SVG: what is known of every row between a lower and an upper bound."""

from __future__ import annotations

import math
from collections.abc import Sequence

from anybound.drawing.charts import Axis, shown
from anybound.drawing.markup import Html, joined, tag

__all__ = ["MOST_INTERVALS", "intervals"]

MOST_INTERVALS = 64
_WIDTH, _LEFT, _RIGHT, _TOP, _ROW, _BOTTOM = 460, 58, 14, 8, 16, 22


def intervals(title: str, bounds: Sequence[tuple[int, float, float]]) -> Html:
    """(row, lower, upper), the first at the top; infinite ends reach the edge of the frame."""
    finite = [end for _, *pair in bounds for end in pair if math.isfinite(end)]
    x = Axis.around("", [*finite, 0.0])
    height = _TOP + _ROW * len(bounds) + _BOTTOM
    base = _TOP + _ROW * len(bounds)
    grid = (_tick(tick, x, base) for tick in x.ticks())
    rows = (_row(place, *entry, x) for place, entry in enumerate(bounds))
    zero = _line(x.place(0.0), _TOP, base, "zero")
    picture = tag(
        "svg",
        tag("title", title),
        joined(*grid),
        zero,
        joined(*rows),
        viewBox=f"0 0 {_WIDTH} {height}",
        role="img",
        aria_label=f"{title}: {len(bounds)} intervals",
    )
    return tag("figure", tag("figcaption", title), picture, class_="chart")


def _tick(tick: float, x: Axis, base: float) -> Html:
    label = tag("text", shown(tick), x=f"{_at(x.place(tick)):.1f}", y=base + 16)
    return joined(_line(x.place(tick), _TOP, base, "grid"), tag("g", label, text_anchor="middle"))


def _row(place: int, index: int, low: float, high: float, x: Axis) -> Html:
    y = _TOP + _ROW * (place + 0.5)
    start, end = (_at(min(1.0, max(0.0, x.place(value)))) for value in (low, high))
    bar = tag(
        "rect",
        tag("title", f"{index}: [{low:.6g}, {high:.6g}]"),
        x=f"{start:.1f}",
        y=f"{y - 4:.1f}",
        width=f"{max(2.0, end - start):.1f}",
        height=8,
        rx=2,
        class_="bar",
    )
    return joined(bar, tag("text", str(index), x=_LEFT - 8, y=f"{y + 4:.1f}", text_anchor="end"))


def _line(place: float, top: float, bottom: float, kind: str) -> Html:
    x = f"{_at(place):.1f}"
    return tag("line", x1=x, y1=top, x2=x, y2=bottom, class_=kind)


def _at(place: float) -> float:
    return _LEFT + place * (_WIDTH - _LEFT - _RIGHT)
