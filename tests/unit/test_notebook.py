"""Results in notebooks: one line of text, and a card of HTML that nothing in them can break."""

from html.parser import HTMLParser

import numpy as np
import pytest
import torch

import anybound
from anybound.bounding import BoundsResult
from anybound.drawing.cards import card
from anybound.outcome import ClauseBounds, Outcome, Progress, Verdict, Witness


class Checked(HTMLParser):
    """Elements are closed in order, and none of them runs or fetches anything."""

    VOID = frozenset({"br", "img", "input", "link", "meta"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in {"script", "link", "img", "iframe"}
        assert not [name for name, _ in attrs if name.startswith("on") or name in ("src", "href")]
        self.seen.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture(scope="module")
def found() -> BoundsResult:
    network = anybound.load(anybound.bundled("digits_dense.onnx"))
    center = np.full(64, 0.5)
    return anybound.bounds(network, anybound.ball(center, 0.05), trace=True)


def test_bounds_are_drawn_with_their_curve(found: BoundsResult) -> None:
    page = Checked(found._repr_html_())
    assert page.seen.count("rect") == 10
    assert page.seen.count("svg") >= 2
    assert "Lower bounds over time" in page.text
    assert "\n" not in repr(found)


def test_bounds_without_a_trace_have_intervals_only(found: BoundsResult) -> None:
    again = anybound.bounds(found.network, found.domain, warm=found, iterations=1)
    assert "Lower bounds over time" not in Checked(again._repr_html_()).text


def outcome(verdict: Verdict, **changes: object) -> Outcome:
    clauses = (ClauseBounds(0, 0.5, 2.0), ClauseBounds(1, -np.inf, np.inf))
    trace = (Progress(0.1, -3.0, 1, 0), Progress(0.2, -1.0, 2, 1), Progress(0.9, 0.5, 0, 4))
    given = {"trace": trace, "reason": "<script>x</script>", **changes}
    return Outcome(verdict, clauses, 1.0, 2.0, 4, **given)  # type: ignore[arg-type]


def test_an_outcome_is_drawn_with_its_curve() -> None:
    page = Checked(outcome(Verdict.TIMEOUT)._repr_html_())
    assert "Verdict: timeout" in page.text
    assert "Bound over time" in page.text
    assert any("<script>" in text for text in page.text), "shown as text"


def test_a_witness_is_told() -> None:
    witness = Witness(np.zeros(2), np.ones(2), 1)
    page = Checked(outcome(Verdict.VIOLATED, witness=witness, trace=(), reason="")._repr_html_())
    assert "an input was found that meets clause 1" in page.text
    assert "Bound over time" not in page.text


def test_style_stays_within_the_card() -> None:
    text = card("t", [("a", "b")])
    rules = text.split("<style>")[1].split("</style>")[0].split("}")
    assert all(rule.strip().startswith(".anybound-card") for rule in rules if rule.strip())


def test_texts_are_one_short_line(found: BoundsResult) -> None:
    network = found.network
    prop = anybound.robust(network, np.full(64, 0.5), 3, 0.1)
    for value in (found, network, prop, anybound.ball([1, 2], 0.1), outcome(Verdict.HOLDS)):
        assert "\n" not in repr(value)
        assert len(repr(value)) < 700


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_tensors_and_arrays_are_the_same(dtype: torch.dtype) -> None:
    tensor = torch.linspace(0, 1, 6, dtype=dtype).reshape(2, 3).requires_grad_()
    array = tensor.detach().double().numpy()
    ours, theirs = anybound.ball(tensor, 0.1), anybound.ball(array.tolist(), 0.1)
    assert (ours.lower == theirs.lower).all()
    assert (ours.upper == theirs.upper).all()


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ([[1, 2], [3]], "rows of different lengths"),
        (["a"], "expected float64 or narrower"),
        ([np.nan], "not finite"),
        (np.array([1 + 2j]), "type complex128"),
        (None, "type object"),
    ],
)
def test_what_is_no_point_is_refused(value: object, says: str) -> None:
    with pytest.raises(anybound.AnyboundError, match=says):
        anybound.ball(value, 0.1)  # type: ignore[arg-type]


def test_an_input_set_of_another_network_is_refused(found: BoundsResult) -> None:
    with pytest.raises(anybound.AnyboundError, match="has 2 inputs, the network 64"):
        anybound.bounds(found.network, anybound.ball([1, 2], 0.1))


def test_an_unknown_bundled_file_is_refused_with_the_closest() -> None:
    with pytest.raises(anybound.AnyboundError, match="did you mean 'digits_dense"):
        anybound.bundled("digit_dense.onnx")
