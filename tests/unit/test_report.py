"""The report page: everything in it, nothing outside it, and nothing it was given can break it."""

import json
import re
import struct
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anybound.cli.main import main
from anybound.drawing.charts import Axis, Series, chart
from anybound.drawing.markup import Html, tag
from anybound.errors import InvalidInput
from anybound.report.command import command_of
from anybound.report.exhibit import Exhibit, as_image
from anybound.report.page import Report, page
from anybound.report.png import png
from anybound.report.run import instances

NASTY = "</script><img src=x onerror=alert(1)>\"'&\x00\ud800é"


def record(**changes: Any) -> dict[str, Any]:
    """One line of a run, as `bench` writes it."""
    return {
        "onnx": "b/onnx/net.onnx",
        "vnnlib": "b/vnnlib/p.vnnlib",
        "verdict": "holds",
        "seconds": 1.5,
        "cpu_seconds": 1.25,
        "subproblems": 10,
        "clauses": [
            {"clause": 0, "lower": 0.25, "upper": 2.0},
            {"clause": 1, "lower": None, "upper": None},
        ],
        "witness": None,
        "certified": None,
        "phases": {"search": 1.0},
        "plan": {"method": "Crown()"},
        "trace": [
            {"seconds": 0.1, "lower": None, "open": 1, "closed": 0},
            {"seconds": 0.5, "lower": -1.0, "open": 3, "closed": 2},
            {"seconds": 1.5, "lower": 0.25, "open": 0, "closed": 6},
        ],
        "reason": "",
        "error": None,
        "config": {"timeout": 60.0, "method": None, "seed": 0, "threads": 1, "complete": True},
        "versions": {"anybound": "0.1.0", "highspy": None},
        **changes,
    }


class Reader(HTMLParser):
    """Collects elements and text, and checks that elements are closed in order."""

    VOID = frozenset({"br", "img", "input", "link", "meta"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.found if tag == name]


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert not reader.open
    return reader


def page_of(*records: dict[str, Any], **more: Any) -> str:
    found = instances(records, "run.jsonl")
    return page(Report("run", found, ["b"] * len(found), **more))


def exhibit(shape: tuple[int, ...] = (1, 8, 8)) -> Exhibit:
    layers = [{"layer": 1, "neurons": 9, "ambiguous": 4, "width": 0.5}]
    tightness = [{"strategy": name, "layers": layers} for name in ("interval", "slopes")]
    return Exhibit(shape, np.zeros(64), np.ones(64), tightness)


def test_the_page_is_well_formed_and_self_contained() -> None:
    text = page_of(record(), exhibits={0: exhibit()})
    reader = read(text)
    assert {"svg", "table", "style", "script", "img"} <= {name for name, _ in reader.found}
    assert not reader.all("link")
    assert all(script == {} for script in reader.all("script"))
    addresses = re.findall(r'(?:src|href)="([^"]*)"|url\(([^)]*)\)', text)
    assert addresses
    assert all(a.startswith("data:image/png;base64,") for a, _ in addresses)
    assert "http" not in re.sub(r"http-equiv", "", text)


def test_scripts_and_styles_run_by_their_hash_only() -> None:
    (policy,) = [m["content"] for m in read(page_of(record())).all("meta") if "http-equiv" in m]
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


def test_numbers_and_states_are_there() -> None:
    text = read(page_of(record(), record(vnnlib="q", verdict="violated", certified=False))).text
    for shown in ("0.25", "1.50 s (1.25 s CPU)", "not asked", "10 sub-problems", "net.onnx"):
        assert shown in text


@pytest.mark.parametrize("field", ["onnx", "vnnlib", "reason", "error", "folder"])
def test_what_comes_from_outside_is_escaped(field: str) -> None:
    text = page_of(record(**{field: NASTY}))
    reader = read(text)
    assert not reader.all("img")
    assert "onerror" not in {name for _, attributes in reader.found for name in attributes}
    assert "<img" not in text
    text.encode("utf-8")


def test_nested_values_are_escaped_too() -> None:
    changes = {"plan": {NASTY: NASTY}, "phases": {NASTY: 1.0}, "versions": {NASTY: NASTY}}
    text = page_of(record(**changes), notes={0: NASTY})
    assert not read(text).all("img")


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"verdict": "maybe"}, "maybe"),
        ({"seconds": "long"}, "long"),
        ({"seconds": None}, "seconds"),
        ({"onnx": 3}, "file name"),
        ({"trace": [{"seconds": 1}]}, "lower"),
        ({"witness": {"input": 3}}, "int"),
        ({"clauses": [1]}, "int"),
        ({"certified": "yes"}, "certified"),
    ],
)
def test_records_of_another_kind_are_refused(change: dict[str, Any], what: str) -> None:
    with pytest.raises(InvalidInput, match=f"record 1.*{what}.*anybound bench"):
        instances([record(**change)], "run.jsonl")


def test_no_record_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no record"):
        instances([], "run.jsonl")


def test_the_last_record_of_an_instance_counts() -> None:
    (found,) = instances([record(), record(verdict="unknown")], "run.jsonl")
    assert found.verdict == "unknown"


def test_contradictions_are_shouted() -> None:
    assert not [a for a in read(page_of(record())).all("p") if a.get("role") == "alert"]
    text = page_of(record(), contradicted=frozenset({0}))
    assert [a for a in read(text).all("p") if a.get("role") == "alert"]


def test_the_command_reproduces_the_run() -> None:
    config = {"timeout": 60.0, "method": "proximal(iterations=9)", "seed": 3, "complete": False}
    config |= {"search": "portable", "certify": True, "semantics": "float32"}
    (found,) = instances([record(folder="/data/my runs", config=config)], "run.jsonl")
    assert command_of(found) == (
        "anybound verify '/data/my runs/b/onnx/net.onnx' '/data/my runs/b/vnnlib/p.vnnlib' "
        "--timeout 60 --method 'proximal(iterations=9)' --search portable --seed 3 --no-search "
        "--certify --semantics float32"
    )


def test_markup_escapes_all_but_markup() -> None:
    assert tag("a", "x<y", Html("<b>"), href='"&') == '<a href="&quot;&amp;">x&lt;y<b></a>'
    assert tag("td", None, hidden=True, title=None, data_key=0) == '<td hidden data-key="0"></td>'


@pytest.mark.parametrize(
    ("shape", "size", "expected"),
    [
        ((1, 8, 8), 64, (8, 8)),
        ((64,), 64, (8, 8)),
        ((3, 32, 32), 3072, (32, 32, 3)),
        ((1, 32, 32, 3), 3072, (32, 32, 3)),
        ((1, 784, 1), 784, (28, 28)),
        ((3, 224, 224), 150528, (75, 75, 3)),
        ((5,), 5, None),
        ((2, 3), 6, None),
        ((9, 8, 8), 576, None),
    ],
)
def test_images_are_recognised_by_their_shape(
    shape: tuple[int, ...], size: int, expected: tuple[int, ...] | None
) -> None:
    image = as_image(np.arange(float(size)), shape)
    assert (None if image is None else image.shape) == expected


def test_channels_come_last() -> None:
    image = as_image(np.arange(3072.0), (3, 32, 32))
    assert image is not None
    assert image[1, 2].tolist() == [34.0, 1058.0, 2082.0]


@pytest.mark.parametrize("shape", [(3, 5), (4, 2, 3)])
def test_pictures_decode_to_what_was_drawn(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    levels = rng.integers(0, 256, shape)
    data = png(levels / 255.0)
    width, height, depth, kind = struct.unpack(">IIBB", data[16:26])
    assert (height, width, depth, kind) == (*shape[:2], 8, 2 if len(shape) == 3 else 0)
    start = data.index(b"IDAT") + 4
    (length,) = struct.unpack(">I", data[start - 8 : start - 4])
    rows = np.frombuffer(zlib.decompress(data[start : start + length]), np.uint8)
    assert np.array_equal(rows.reshape(height, -1)[:, 1:].reshape(shape), levels)


@pytest.mark.parametrize(
    "values", [[], [1.0], [0.0, 0.0], [-3.0, 5.0], [1e-9, 1e9], [float("inf"), 2.0], [1e5, 1e5 + 1]]
)
@pytest.mark.parametrize("log", [False, True])
def test_axes_hold_all_values_and_have_ticks(values: list[float], log: bool) -> None:
    axis = Axis.around("x", values, log=log)
    usable = [v for v in values if np.isfinite(v) and (v > 0 or not log)]
    assert all(-1e-9 <= axis.place(v) <= 1 + 1e-9 for v in usable)
    ticks = axis.ticks()
    assert 1 <= len(ticks) <= 12
    assert all(-1e-9 <= axis.place(t) <= 1 + 1e-9 for t in ticks)


def test_charts_leave_out_what_is_not_finite() -> None:
    points = [(0.0, 1.0), (1.0, float("nan")), (2.0, float("inf")), (3.0, 2.0)]
    axis = Axis("x", 0.0, 4.0)
    text = chart("t", axis, axis, [Series("s", points)])
    assert "nan" not in text
    assert "inf" not in text
    read(text)


def test_the_command_writes_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run.jsonl"
    run.write_text(json.dumps(record()) + "\n")
    assert main(["report", str(run), "--examine", "0", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["page"] == str(tmp_path / "run.html")
    assert answer["instances"] == 1
    assert answer["bytes"] == len((tmp_path / "run.html").read_bytes())


@pytest.mark.parametrize("arguments", [["--examine", "-1"], ["-o", "run.jsonl"]])
def test_useless_arguments_are_refused(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.jsonl").write_text(json.dumps(record()) + "\n")
    assert main(["report", "run.jsonl", *arguments]) == 2
    assert json.loads(Path("run.jsonl").read_text())["verdict"] == "holds"
