"""Charts as SVG elements inside a page: lines over linear or logarithmic axes.

Colours come from the page's style (`series0` … `series7`), so that they follow its light or dark
scheme; every series also has a dash pattern of its own and a name in the legend.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from anybound.drawing.markup import Html, joined, tag

__all__ = ["Axis", "Series", "chart", "shown"]

_WIDTH, _HEIGHT = 460, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 14, 12, 42
_MOST_TICKS = 5
_COLOURS = 8


@dataclass(frozen=True)
class Series:
    """A line through points, drawn as stairs if it only changes there, with dots if they are few."""

    name: str
    points: Sequence[tuple[float, float]]
    stairs: bool = False
    dots: bool = False


@dataclass(frozen=True)
class Axis:
    """A range of numbers with a name; `whole` allows ticks at whole numbers only."""

    label: str
    low: float
    high: float
    log: bool = False
    whole: bool = False

    @staticmethod
    def around(
        label: str, values: Iterable[float], *, log: bool = False, whole: bool = False
    ) -> Axis:
        """The smallest range that holds all finite values (above 0, if `log`)."""
        usable = [v for v in values if math.isfinite(v) and (v > 0 or not log)]
        low, high = min(usable, default=1.0 if log else 0.0), max(usable, default=1.0)
        if log:
            return Axis(label, 10.0 ** math.floor(math.log10(low)), _above(high, low), log=True)
        room = 0.06 * ((high - low) or abs(high) or 1.0)
        if whole:
            return Axis(label, low, max(high, low + 1), whole=True)
        return Axis(label, low - (room if low != 0 else 0.0), high + room)

    def place(self, value: float) -> float:
        """From 0 at the low end to 1 at the high end."""
        if self.log:
            low, high = math.log10(self.low), math.log10(self.high)
            return (math.log10(max(value, self.low)) - low) / (high - low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Round numbers on the axis."""
        return list(self._decades() if self.log else self._steps())

    def _decades(self) -> Iterator[float]:
        first, last = round(math.log10(self.low)), round(math.log10(self.high))
        every = max(1, -(-(last - first) // _MOST_TICKS))
        yield from (10.0**power for power in range(first, last + 1, every))

    def _steps(self) -> Iterator[float]:
        rough = (self.high - self.low) / _MOST_TICKS
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * m for m in (1, 2, 5, 10) if power * m >= rough)
        step = max(step, 1.0) if self.whole else step
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        yield from (step * k for k in range(first, last + 1))


def chart(title: str, x: Axis, y: Axis, series: Sequence[Series], zero: bool = False) -> Html:
    """A figure with a legend; `zero` draws a line where y is 0."""
    drawn = [s for s in series if s.points]
    ground = [_line(x.low, 0.0, x.high, 0.0, x, y, "zero")] if zero and y.low < 0 < y.high else []
    picture = tag(
        "svg",
        tag("title", title),
        _grid(x, y),
        *ground,
        *(_series(s, i, x, y) for i, s in enumerate(drawn)),
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
        aria_label=f"{title}: {y.label} over {x.label}",
    )
    legend = tag("div", *(_key(s, i) for i, s in enumerate(drawn)), class_="legend")
    return tag(
        "figure",
        tag("figcaption", title),
        picture,
        legend if len(drawn) > 1 else None,
        class_="chart",
    )


def shown(value: float) -> str:
    """A number on an axis, short."""
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:.6g}"
    return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e")


def _grid(x: Axis, y: Axis) -> Html:
    parts = []
    for tick in x.ticks():
        at = _x(tick, x)
        parts.append(_line(tick, y.low, tick, y.high, x, y, "grid"))
        parts.append(tag("text", shown(tick), x=at, y=_HEIGHT - 24, text_anchor="middle"))
    for tick in y.ticks():
        at = _y(tick, y)
        parts.append(_line(x.low, tick, x.high, tick, x, y, "grid"))
        parts.append(tag("text", shown(tick), x=_LEFT - 6, y=at + 4, text_anchor="end"))
    middle, height = (_LEFT + _WIDTH - _RIGHT) / 2, (_TOP + _HEIGHT - _BOTTOM) / 2
    parts.append(
        tag("text", x.label, x=middle, y=_HEIGHT - 5, text_anchor="middle", class_="label")
    )
    turned = f"rotate(-90 12 {height:g})"
    parts.append(
        tag(
            "text",
            y.label,
            x=12,
            y=height,
            text_anchor="middle",
            transform=turned,
            class_="label",
        )
    )
    return joined(*parts)


def _series(series: Series, index: int, x: Axis, y: Axis) -> Html:
    points = [(_x(a, x), _y(b, y)) for a, b in series.points if math.isfinite(b)]
    path = " ".join(_path(points, series.stairs))
    name = f"series{index % _COLOURS}"
    line = tag("path", d=path, class_=f"line {name}") if len(points) > 1 else None
    dots = points if series.dots or len(points) == 1 else []
    marks = (tag("circle", cx=f"{a:g}", cy=f"{b:g}", r=3.5, class_=f"dot {name}") for a, b in dots)
    return tag("g", tag("title", series.name), line, *marks)


def _path(points: Sequence[tuple[float, float]], stairs: bool) -> Iterator[str]:
    for i, (a, b) in enumerate(points):
        if i == 0:
            yield f"M{a:.1f} {b:.1f}"
        elif stairs:
            yield f"H{a:.1f}V{b:.1f}"
        else:
            yield f"L{a:.1f} {b:.1f}"


def _key(series: Series, index: int) -> Html:
    sample = tag("path", d="M0 6H26", class_=f"line series{index % _COLOURS}")
    icon = tag("svg", sample, viewBox="0 0 26 12", width=26, height=12, aria_hidden="true")
    return tag("span", icon, " ", series.name)


def _line(x0: float, y0: float, x1: float, y1: float, x: Axis, y: Axis, kind: str) -> Html:
    ends = {"x1": _x(x0, x), "y1": _y(y0, y), "x2": _x(x1, x), "y2": _y(y1, y)}
    return tag("line", **{name: f"{value:.1f}" for name, value in ends.items()}, class_=kind)


def _x(value: float, axis: Axis) -> float:
    return _LEFT + axis.place(value) * (_WIDTH - _LEFT - _RIGHT)


def _y(value: float, axis: Axis) -> float:
    return _HEIGHT - _BOTTOM - axis.place(value) * (_HEIGHT - _TOP - _BOTTOM)


def _above(high: float, low: float) -> float:
    """The next power of ten, at least one decade above the low end."""
    power = math.ceil(math.log10(high) - 1e-12)
    return float(10.0 ** max(power, math.floor(math.log10(low)) + 1))
