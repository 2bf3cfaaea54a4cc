"""Results in a notebook: a heading, a few facts and pictures, in the colours of the notebook's theme."""

from __future__ import annotations

from collections.abc import Iterable

from anybound.drawing.markup import Html, joined, tag

__all__ = ["card"]

# Every rule begins with the card's own class, so that nothing else in the notebook changes.
_STYLE = """
.anybound-card { max-width: 60rem; line-height: 1.45; }
.anybound-card h4 { margin: 0.2rem 0 0.4rem; }
.anybound-card dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 1rem; margin: 0 0 0.6rem; }
.anybound-card dt { opacity: 0.65; font-weight: normal; } .anybound-card dd { margin: 0; }
.anybound-card .figures { display: flex; flex-wrap: wrap; gap: 0.5rem 1.5rem; }
.anybound-card figure { margin: 0; width: min(100%, 27rem); }
.anybound-card figcaption { font-weight: 600; font-size: 0.85em; }
.anybound-card .chart > svg { width: 100%; height: auto; display: block; }
.anybound-card svg text { fill: currentColor; font-size: 12px; }
.anybound-card svg .grid { stroke: currentColor; opacity: 0.18; }
.anybound-card svg .zero { stroke: currentColor; opacity: 0.7; stroke-dasharray: 5 4; }
.anybound-card svg .line { fill: none; stroke-width: 2.2; }
.anybound-card .series0 { stroke: #0072b2; } .anybound-card .series1 { stroke: #d55e00; stroke-dasharray: 7 3; }
.anybound-card .series2 { stroke: #009e73; stroke-dasharray: 2 3; }
.anybound-card .series3 { stroke: #cc79a7; stroke-dasharray: 9 3 2 3; }
.anybound-card .dot { fill: #0072b2; } .anybound-card .bar { fill: #0072b2; }
.anybound-card .legend { display: flex; gap: 0 1rem; font-size: 0.85em; }
"""


def card(title: str, facts: Iterable[tuple[str, str]], figures: Iterable[Html] = ()) -> str:
    """The HTML of a result; whatever the texts hold is escaped."""
    entries = (joined(tag("dt", name), tag("dd", value)) for name, value in facts)
    return tag(
        "div",
        tag("style", Html(_STYLE)),
        tag("h4", title),
        tag("dl", *entries),
        tag("div", *figures, class_="figures"),
        class_="anybound-card",
    )
