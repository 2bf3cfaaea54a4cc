"""A run as one HTML page that needs nothing else: no network, no other file.

    page(instances, …)  →  summary by benchmark · cactus plot · table of instances, each with details

The page's policy allows its own style and its own script, by their hashes, and pictures inside it:
even if something slipped through the escaping, no browser would run it.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.resources import files

from anybound.drawing.charts import Axis, Series, chart
from anybound.drawing.markup import Html, joined, tag
from anybound.report.details import certificate_state, detail, number
from anybound.report.exhibit import Exhibit
from anybound.report.run import VERDICTS, Instance

__all__ = ["Report", "page"]

_COLUMNS = (
    ("verdict", "text"),
    ("network", "text"),
    ("property", "text"),
    ("seconds", "number"),
    ("CPU s", "number"),
    ("sub-problems", "number"),
    ("margin ≥", "number"),
    ("certificate", "text"),
)
_FASTEST = 1e-3  # seconds; what took less is drawn there


@dataclass(frozen=True)
class Report:
    """The instances of a run, each with its benchmark, and what else is known of it.

    `contradicted` are those whose verdict is the opposite of what is expected; `exhibits` and the
    `notes` on missing ones are by instance.
    """

    title: str
    instances: Sequence[Instance]
    benchmarks: Sequence[str]
    contradicted: frozenset[int] = frozenset()
    exhibits: Mapping[int, Exhibit] = field(default_factory=dict)
    notes: Mapping[int, str] = field(default_factory=dict)


def page(report: Report) -> str:
    """The whole document."""
    style, script = _asset("report.css"), _asset("report.js")
    policy = (
        f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}"
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{report.title} – anybound"),
        tag("style", Html(style)),
    )
    body = tag(
        "body",
        tag("header", tag("h1", report.title), tag("p", _headline(report))),
        tag("main", _alarm(report), _summary(report), _cactus(report), _table(report)),
        tag("footer", _footer(report)),
        tag("script", Html(script)),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _asset(name: str) -> str:
    return (files("anybound.report") / "assets" / name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode('utf-8')).digest()).decode('ascii')}'"


def _headline(report: Report) -> str:
    solved = sum(i.is_solved for i in report.instances)
    spent = sum(i.seconds for i in report.instances)
    return f"{solved:,} of {len(report.instances):,} instances decided in {_duration(spent)}"


def _alarm(report: Report) -> Html | None:
    if not report.contradicted:
        return None
    count = len(report.contradicted)
    text = f"{count} verdict{'s' if count > 1 else ''} contradict what is expected: see the table."
    return tag("p", text, class_="alarm", role="alert")


def _summary(report: Report) -> Html:
    names = sorted(set(report.benchmarks))
    columns = ("instances", *VERDICTS, "failed", "contradicted", "certified", "seconds", "CPU s")
    head = tag("tr", tag("th", "benchmark"), *(tag("th", name) for name in columns))
    rows = [
        _summary_row(name, [i for i, b in enumerate(report.benchmarks) if b == name], report)
        for name in names
    ]
    total = _summary_row("all", range(len(report.instances)), report) if len(names) > 1 else None
    table = tag("table", tag("thead", head), tag("tbody", *rows, total), class_="numbers")
    return tag("section", tag("h2", "Summary"), tag("div", table, class_="wide"))


def _summary_row(name: str, members: Sequence[int], report: Report) -> Html:
    chosen = [report.instances[i] for i in members]
    counts = [len(chosen), *(sum(i.verdict == v for i in chosen) for v in VERDICTS)]
    counts += [
        sum(i.error is not None for i in chosen),
        len(report.contradicted & set(members)),
        sum(i.certified is True for i in chosen),
    ]
    seconds = (sum(i.seconds for i in chosen), sum(i.cpu_seconds for i in chosen))
    cells = [*(f"{count:,}" for count in counts), *(f"{s:,.1f}" for s in seconds)]
    return tag("tr", tag("th", name, scope="row"), *(tag("td", cell) for cell in cells))


def _cactus(report: Report) -> Html | None:
    """How many instances are decided within how many seconds each."""
    groups = {"all": [i for i in report.instances if i.is_solved]}
    names = sorted(set(report.benchmarks))
    if len(names) > 1:
        named = list(zip(report.benchmarks, report.instances, strict=True))
        groups |= {name: [i for b, i in named if b == name and i.is_solved] for name in names[:7]}
    series = [
        Series(name, _solved(group), stairs=True, dots=len(group) < 40)
        for name, group in groups.items()
    ]
    if not groups["all"]:
        return None
    count = Axis.around("instances decided", [0, len(groups["all"])], whole=True)
    seconds = Axis.around("seconds each", (y for s in series for _, y in s.points), log=True)
    picture = chart("Decided instances, sorted by time", count, seconds, series)
    return tag("section", tag("h2", "Time to decide"), picture)


def _solved(group: Sequence[Instance]) -> list[tuple[float, float]]:
    times = sorted(max(i.seconds, _FASTEST) for i in group)
    return [(n, seconds) for n, seconds in enumerate(times, 1)]


def _table(report: Report) -> Html:
    head = tag("tr", *(_heading(name, kind, i) for i, (name, kind) in enumerate(_COLUMNS)))
    rows = [_rows(report, i) for i in range(len(report.instances))]
    table = tag("table", tag("thead", head), *rows, id="instances")
    return tag(
        "section", tag("h2", "Instances"), _controls(report), tag("div", table, class_="wide")
    )


def _controls(report: Report) -> Html:
    text = tag(
        "input",
        type="search",
        id="text",
        placeholder="part of a name",
        autocomplete="off",
        aria_keyshortcuts="/",
    )
    present = [v for v in VERDICTS if any(i.verdict == v for i in report.instances)]
    boxes = [
        tag(
            "label",
            tag("input", type="checkbox", checked=True, value=v, class_="verdicts"),
            f" {v}",
        )
        for v in present
    ]
    names = sorted(set(report.benchmarks))
    options = [
        tag("option", "all benchmarks", value=""),
        *(tag("option", n, value=n) for n in names),
    ]
    chosen = tag("select", *options, id="benchmark", aria_label="benchmark")
    return tag(
        "form",
        tag("label", "Filter ", text),
        tag("fieldset", tag("legend", "Verdicts"), *boxes),
        chosen if len(names) > 1 else None,
        tag("output", "", id="count", aria_live="polite"),
        tag(
            "p", "Keys: / filters, ↑ ↓ move between rows, Enter opens, Esc clears.", class_="quiet"
        ),
        id="controls",
        role="search",
    )


def _heading(name: str, kind: str, index: int) -> Html:
    button = tag("button", name, type="button", data_column=index, data_kind=kind)
    return tag("th", button, scope="col", aria_sort="none")


def _rows(report: Report, index: int) -> Html:
    """A table body per instance: the line, and its details below, hidden until asked for."""
    instance = report.instances[index]
    opens = tag(
        "button",
        instance.verdict,
        type="button",
        class_=f"open {instance.verdict}",
        aria_expanded="false",
        aria_controls=f"detail{index}",
    )
    mark = tag("b", " contradicted", class_="alarm") if index in report.contradicted else None
    failed = tag("b", " failed", class_="alarm") if instance.error is not None else None
    margin = instance.margin if math.isfinite(instance.margin) else None
    cells: tuple[tuple[str | float | None, str], ...] = (
        (instance.verdict, joined(opens, mark, failed)),
        (instance.onnx, _file(instance.onnx)),
        (instance.vnnlib, _file(instance.vnnlib)),
        (instance.seconds, f"{instance.seconds:.2f}"),
        (instance.cpu_seconds, f"{instance.cpu_seconds:.2f}"),
        (instance.subproblems, f"{instance.subproblems:,}"),
        (margin, number(instance.margin)),
        (certificate_state(instance), certificate_state(instance)),
    )
    columns = zip(_COLUMNS, cells, strict=True)
    line = tag("tr", *(_cell(name, kind, key, text) for (name, kind), (key, text) in columns))
    below = detail(instance, report.exhibits.get(index), report.notes.get(index, ""))
    hidden = tag(
        "tr",
        tag("td", below, colspan=len(_COLUMNS)),
        class_="detail",
        id=f"detail{index}",
        hidden=True,
    )
    return tag(
        "tbody",
        line,
        hidden,
        data_verdict=instance.verdict,
        data_benchmark=report.benchmarks[index],
        data_name=f"{instance.onnx} {instance.vnnlib}".lower(),
    )


def _cell(name: str, kind: str, key: str | float | None, text: str) -> Html:
    shown = text if isinstance(text, Html) else tag("span", text)
    return tag("td", shown, data_label=name, data_key="" if key is None else key, class_=kind)


def _file(name: str) -> Html:
    """The file's own name, which is what differs; all of it on hover."""
    return tag("span", name.rsplit("/", 1)[-1], title=name)


def _footer(report: Report) -> Html:
    versions = dict(report.instances[-1].versions)
    parts = (f"{name} {version}" for name, version in versions.items())
    text = ", ".join(parts) or "the run does not say which versions it was made with"
    return tag(
        "p",
        "A verdict rests on bounds evaluated in float64 and rounded outwards, or on an input that was "
        "run through the original network. Made with ",
        text,
        ".",
        class_="quiet",
    )


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
