"""`anybound reproduce`: figures and tables are functions of records, and a killed run goes on where it was."""

import importlib.util
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from anybound.benching import read_expected
from anybound.bound.intermediates import wk
from anybound.bundle import bundled
from anybound.cli.main import main
from anybound.experiments import rows, study_results
from anybound.experiments.cases import Case, Digits
from anybound.experiments.complete import ELSEWHERE
from anybound.experiments.curve import curves, tightened
from anybound.experiments.decided import Decided, split
from anybound.experiments.gaps import Margins
from anybound.experiments.measurement import Measurement
from anybound.experiments.progress import Risen
from anybound.experiments.properties import PaperProperties
from anybound.experiments.rows import Row, incomplete_rows
from anybound.experiments.study import COMBINED, SAME_START, Study
from anybound.experiments.style import COLOURS, SPARE, Style
from anybound.experiments.table import Table
from anybound.experiments.tables import models, orderings, summary
from anybound.experiments.tables.intermediate_bounds import Strategies
from anybound.experiments.tuning import kept
from anybound.io.records import Record, RecordFile, read_records, to_line

OWN = "slopes(iterations=3)"
MINE = "Mine"
ROWS = ("IP", "WK", "Supergradient 370", "Proximal 200", "LP", "Slopes 20")
QUICK = ["reproduce", "incomplete", "--digits", "--images", "2", "--quiet"]
QUICK += ["--method", f"{MINE}={OWN}"]
QUICK += [word for row in ROWS for word in ("--row", row)]

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("incomplete")
    assert main([*QUICK, "-o", str(folder)]) == 0
    return folder


def measured(folder: Path) -> list[Measurement]:
    return [Measurement.of(record) for record in read_records(folder / "records.jsonl")]


def contents(folder: Path) -> dict[str, bytes]:
    paths = [p for p in folder.rglob("*") if p.suffix in (".svg", ".md", ".txt", ".tex")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def sampled_margins(case: Case, name: str) -> np.ndarray:
    """Margins that the network itself has at random inputs of the ball and at its corners, `[points, margins]`."""
    lower, upper = (t.flatten().numpy() for t in (case.domain.lower, case.domain.upper))
    share = np.random.default_rng(0).random((200, lower.size))
    share[:100] = share[:100].round()
    points = (lower + share * (upper - lower)).astype(np.float32)
    session = onnxruntime.InferenceSession(bundled(f"{name}.onnx").read_bytes())
    shape = session.get_inputs()[0].shape
    out = [
        session.run(None, {session.get_inputs()[0].name: x.reshape(1, *shape[1:])})[0].ravel()
        for x in points
    ]
    return np.array(out) @ case.rows.reshape(len(case.rows), -1).numpy().T


def test_everything_is_measured_once(folder: Path) -> None:
    found = measured(folder)
    assert len(found) == 2 * 2 * (len(ROWS) + 1) == len({m.key for m in found})
    assert {m.row for m in found} == {*ROWS, MINE}
    assert {m.method for m in found if m.row == MINE} == {OWN}
    assert all(m.seconds > 0 and m.cpu_seconds > 0 and len(m.lower) == 9 for m in found)


def test_bounds_hold_at_inputs_that_the_network_runs_on(folder: Path) -> None:
    source = Digits()
    for role in ("madry", "sgd"):
        for case in source.cases(role, 2):
            real = sampled_margins(case, source.name(role)).min(0)
            for m in measured(folder):
                if (m.role, m.image) == (role, case.image):
                    assert (np.array(m.lower) <= real + 1e-5).all(), m.row


def test_the_relaxation_has_one_optimum_and_the_methods_their_order(folder: Path) -> None:
    for role in ("madry", "sgd"):
        margins = Margins.of(measured(folder), role)
        assert margins is not None
        gap = {row: margins.gap(row) for row in margins.by_row}
        assert gap["LP"].max() < 1e-4
        assert all((g >= 0).all() for g in gap.values())
        means = [float(gap[row].mean()) for row in ("IP", "WK", "Supergradient 370", "LP")]
        assert means == sorted(means, reverse=True)
        assert margins.own == [MINE]
        assert margins.better("WK", "IP") == 100.0


def test_figures_and_tables_are_there_with_the_users_method(folder: Path) -> None:
    names = ["madry8", "madry8-pointwise", "madry-add-pointwise"]
    names += ["sgd8", "sgd-pointwise", "sgd-add-pointwise"]
    for name in names:
        assert (folder / f"figures/{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (folder / f"figures/{name}.svg").stat().st_size < 150_000
    page = (folder / "results.md").read_text()
    assert all(f"figures/{name}.png" in page for name in names)
    for suffix in ("txt", "md", "tex"):
        table = (folder / f"tables/summary-madry.{suffix}").read_text()
        assert all(row in table for row in (*ROWS, MINE))


def test_a_killed_run_goes_on_and_draws_the_same(folder: Path, tmp_path: Path) -> None:
    """What a run leaves that was killed while it wrote: whole lines, and a torn one."""
    whole = (folder / "records.jsonl").read_bytes().splitlines(keepends=True)
    killed = tmp_path / "records.jsonl"
    kept = [line for line in whole if b'"Slopes 20"' not in line]
    killed.write_bytes(b"".join(kept) + whole[-1][:50])
    assert main([*QUICK, "-o", str(tmp_path)]) == 0
    lines = killed.read_bytes().splitlines(keepends=True)
    assert lines[: len(kept)] == kept
    assert len(lines) == len(whole)


def test_an_interrupt_while_hidden_layers_are_bounded_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What bounds there are by then would be valid, and no other image's or run's."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(wk, "sweep_layer", interrupted)
    assert main([*QUICK, "-o", str(tmp_path)]) == 130
    assert read_records(tmp_path / "records.jsonl") == []
    assert main(["reproduce", "study", "--digits", "--images", "1", "-o", str(tmp_path)]) == 130
    assert read_records(tmp_path / "records.jsonl") == []


def test_drawing_needs_the_records_alone(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "records.jsonl").write_bytes((folder / "records.jsonl").read_bytes())
    assert main(["reproduce", "incomplete", "--draw", "--quiet", "-o", str(tmp_path)]) == 0
    assert contents(tmp_path) == contents(folder)


COMPLETE = ["reproduce", "complete", "--digits", "--quiet", "--network", "base", "--timeout", "30"]
COMPLETE += ["--row", "Proximal BaBSR", "--row", "MIPplanet", "--row", "anybound"]
COMPLETE += ["--method", OWN, "--search", "compact(batch=7)"]


@pytest.fixture(scope="module")
def decided(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("complete")
    assert main([*COMPLETE, "-o", str(folder)]) == 0
    return folder


def test_every_row_decides_every_property_as_expected(decided: Path) -> None:
    rows = {"Proximal BaBSR", "MIPplanet", "anybound", f"{OWN} BaBSR", "compact(batch=7)"}
    records = [dict(record) for record in read_records(decided / "records.jsonl")]
    expected = read_expected(bundled("instances.csv"))
    assert {(r["row"], r["vnnlib"]) for r in records} == {
        (row, prop) for row in rows for net, prop in expected if "digits_dense" in net
    }
    for record in records:
        known = {"unsat": "holds", "sat": "violated"}[expected[record["onnx"], record["vnnlib"]]]
        said = record["plan"].get("solver", record["verdict"])
        assert said == known, record["row"]


def test_cactus_plots_and_tables(decided: Path) -> None:
    for name in ("verification-main", "verification-appendix"):
        assert (decided / f"figures/{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (decided / f"figures/{name}.svg").stat().st_size < 150_000
    models = (decided / "tables/models.md").read_text()
    assert f"| {OWN} BaBSR |" in models
    assert "by the solver's word" in models
    assert "easy: s" in (decided / "tables/base-model.txt").read_text()


def test_complete_goes_on_where_it_was_and_refuses_other_limits(
    decided: Path, tmp_path: Path, capsys: Capture
) -> None:
    content = (decided / "records.jsonl").read_bytes()
    (tmp_path / "records.jsonl").write_bytes(content)
    assert main([*COMPLETE, "-o", str(tmp_path)]) == 0
    assert (tmp_path / "records.jsonl").read_bytes() == content
    assert contents(tmp_path) == contents(decided)
    assert main([*COMPLETE, "--timeout", "29", "-o", str(tmp_path)]) == 2
    assert "other settings" in capsys.readouterr().err


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study with few iterations; its second run finds all that the first has written."""
    path = tmp_path_factory.mktemp("study") / "records.jsonl"
    alone = (Row("Slopes 5", "Slopes", "slopes(iterations=5)"),)
    alone += (Row("Supergradient 50", "Supergradient", "supergradient(iterations=50)"),)
    both = (Row("both", "both", "then(slopes(iterations=5), supergradient(iterations=5))"),)
    parts = {SAME_START: alone, COMBINED: both}
    own = (Row(OWN, OWN, OWN),)
    study = Study(
        Digits(), ("madry",), own, 1, parts, ("wk", "compact(steps=3)"), ("WK", "Slopes 5")
    )
    for _ in range(2):
        with RecordFile(path) as file:
            assert len(list(study.records(file))) == study.total() == 4 + 2 * 3
    assert len(read_records(path)) == study.total()
    return path


def test_the_study_follows_bounds_over_time(studied: Path) -> None:
    for curve in curves(read_records(studied)):
        assert list(curve.seconds) == sorted(curve.seconds)
        assert list(curve.mean) == sorted(curve.mean), "the best so far never falls"
        assert curve.mean[-1] == pytest.approx(np.mean(curve.lower), abs=1e-3)
    risen = Risen.of(curves(read_records(studied)), "madry")
    assert risen is not None
    assert min(risen.end(row)[1] for row in risen.by_row) == 0.0
    assert risen.rows(COMBINED) == ["both"]
    slow, fast = risen.end("Supergradient 50")[1], risen.end("Slopes 5")[1]
    assert fast < slow
    reached = risen.until("Slopes 5", slow)
    assert reached is not None
    assert reached < risen.end("Slopes 5")[0]
    assert risen.until("Supergradient 50", fast) is None


def test_tighter_hidden_layers_give_tighter_margins(studied: Path) -> None:
    strategies = Strategies.of(tightened(read_records(studied)), "madry")
    assert strategies is not None
    for row in strategies.rows:
        loose, tight = (strategies.mean(name, row) for name in ("wk", "compact(steps=3)"))
        assert tight.bound > loose.bound, row
        assert tight.ambiguous <= loose.ambiguous


def test_the_studys_figures_and_tables(studied: Path, tmp_path: Path) -> None:
    made = study_results.results(read_records(studied), [], tmp_path)
    names = {path.stem for path in made.figures}
    assert names == {"same-start", "combinations", "intermediate-bounds"}
    assert all(OWN in text for text in made.texts)
    assert "combinations.png" in made.write().read_text()


def test_counts_for_equal_time_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "counts.json"
    counts = kept(path, Digits(), ("madry",))
    assert counts.proximal == 400
    assert counts.dsg % 20 == counts.supergradient % 20 == 0
    assert min(counts.dsg, counts.supergradient) >= 20
    assert kept(path, Digits(), ("madry",)) == counts
    labels = [row.label for row in incomplete_rows(counts)]
    assert f"Supergradient {counts.supergradient // 2}" in labels


def record(row: str, prop: str, seconds: float, verdict: str, **more: object) -> Record:
    plain = {"role": "base", "network": "net", "row": row, "family": row, "vnnlib": prop}
    spent = {"cpu_seconds": seconds, "seconds": seconds, "subproblems": 4, "plan": {}}
    return {**plain, **spent, "verdict": verdict, "config": {"timeout": 50.0}, **more}  # type: ignore[dict-item]  # plain data


def test_time_outs_and_difficulty_are_counted() -> None:
    elsewhere = "LP BaBSR, recorded elsewhere"
    times = {"a": 100.0, "b": 900.0, "c": 3000.0}
    known = [record(elsewhere, p, t, "holds", **{ELSEWHERE: True}) for p, t in times.items()]
    own = [record("own", "a", 1.0, "holds"), record("own", "b", 9.0, "violated")]
    own += [record("own", "c", 40.0, "timeout"), record("own", "only here", 1.0, "holds")]
    found = Decided.of([*known, *own], "base")
    assert found is not None
    assert found.count == 3
    assert found.timeouts("own") == pytest.approx(100 / 3)
    assert found.seconds("own") == pytest.approx(50 / 3)
    assert found.curve("own")[1].tolist() == pytest.approx([100 / 3, 200 / 3])
    assert found.elsewhere == {elsewhere}
    levels = {n: [p.vnnlib for p in d.rows["own"]] for n, d in split(found).items() if d}
    assert levels == {"easy": ["a"], "medium": ["b"], "hard": ["c"]}
    assert "≥16.7" in models.table([found]).text


def test_rows_may_have_limits_of_their_own() -> None:
    slow = [
        record("slow", p, 20.0, "timeout", config={"timeout": 600.0, "cpu": 20.0}) for p in "ab"
    ]
    quick = [record("quick", p, 1.0, "holds", config={"timeout": 100.0}) for p in "ab"]
    found = Decided.of([*slow, *quick], "base")
    assert found is not None
    assert found.limits == {100.0: ["quick"], 20.0: ["slow"]}
    assert "at most 100 s each for quick; at most 20 s each for slow" in models.table([found]).text


def test_recorded_time_outs_have_no_sub_problems(tmp_path: Path) -> None:
    folder = tmp_path / "dev" / "paper_base_kw"
    folder.mkdir(parents=True)
    lines = ["name,BSAT_KW,BTime_KW,BBran_KW,GSAT,GTime"]
    lines += ["easy,unsat,300.5,424,unsat,312.0", "hard,timeout,7200.0,,timeout,7200.1"]
    (folder / "properties.csv").write_text("\n".join(lines) + "\n")
    easy, _, hard, _ = PaperProperties(tmp_path).recorded("base")
    assert (easy.subproblems, hard.subproblems) == (424, None)
    assert (hard.row, hard.verdict, hard.seconds) == ("LP BaBSR", "timeout", 7200.0)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["incomplete", "--method", "slops"], "slopes"),
        (["complete", "--method", "slops"], "slopes"),
        (["complete", "--search", "compct"], "compact"),
        (["complete", "--row", "Gurobi"], "MIPplanet"),
        (["complete", "--network", "madry"], "deep"),
        (["study", "--network", "narrow"], "wide"),
        (["complete", "--images", "3"], "study"),
        (["study", "--row", "WK"], "complete"),
        (["study", "--method", "slops", "--network", "sgd"], "slopes"),
        (["incomplete", "--method", "Mine=slops"], "slopes"),
        (["incomplete", "--method", "=slopes"], "NAME=METHOD"),
        (["incomplete", "--method", "Proximal 400=slopes"], "another name"),
        (["incomplete", "--method", "A=slopes", "--method", "A=wk"], "both"),
        (["complete", "--search", "anybound=compact"], "another name"),
        (["complete", "--data", "/nowhere"], "/nowhere"),
        (["incomplete", "--row", "Gurobi"], "Supergradient 740"),
        (["incomplete", "--row", "LP time-limited"], "Proximal 400"),
        (["incomplete", "--data", "/nowhere"], "/nowhere"),
        (["incomplete", "--draw", "-o", "/nowhere"], "/nowhere"),
    ],
)
def test_what_cannot_be_run_is_refused_in_a_line(
    arguments: list[str], word: str, tmp_path: Path, capsys: Capture
) -> None:
    where = [] if "-o" in arguments else ["-o", str(tmp_path)]
    assert main(["reproduce", *arguments, *where]) == 2
    (line,) = [ln for ln in capsys.readouterr().err.splitlines() if ln.startswith("anybound:")]
    assert word in line


@pytest.mark.parametrize("experiment", ["incomplete", "complete", "study"])
def test_records_of_something_else_are_refused(
    experiment: str, tmp_path: Path, capsys: Capture
) -> None:
    shared = {"role": "madry", "network": "net", "row": "WK", "family": "WK", "epsilon": "0.1"}
    bound = {**shared, "image": 0, "method": "wk", "lower": [0.0], "seconds": 1.0}
    lines = {
        "incomplete": {**bound, "cpu_seconds": 1.0, "iterations": 0, "ambiguous": 3},
        "complete": record("WK", "a.vnnlib", 1.0, "holds"),
        "study": {**bound, "kind": "curve", "part": SAME_START, "mean": [0.0]},
        "nothing": {"a": 1},
    }
    for name, line in lines.items():
        (tmp_path / "records.jsonl").write_text(to_line(line))  # type: ignore[arg-type]  # plain data
        for more in ("--draw", "--digits"):
            if (name, more) != (experiment, "--draw"):  # no digits, but records as they should be
                assert main(["reproduce", experiment, "-q", more, "-o", str(tmp_path)]) == 2
                assert "choose another folder" in capsys.readouterr().err
    (tmp_path / "records.jsonl").write_text("")
    assert main(["reproduce", experiment, "--draw", "-o", str(tmp_path)]) == 2
    assert "holds no records" in capsys.readouterr().err


def test_a_study_of_searches_alone(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "search.jsonl").write_text(to_line(record("WK", "a.vnnlib", 1.0, "holds")))
    assert main(["reproduce", "study", "--draw", "-o", str(tmp_path)]) == 0
    assert "Complete verification" in capsys.readouterr().out


def test_without_a_solver_its_rows_are_left_out(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "highspy" else spec(name, *a)
    )
    few = [row for row in incomplete_rows() if row.family in ("WK", "LP", "Slopes")]
    monkeypatch.setattr(rows, "incomplete_rows", lambda counts: few)
    arguments = ["reproduce", "incomplete", "--digits", "--images", "1", "--network", "madry"]
    assert main([*arguments, "-o", str(tmp_path)]) == 0
    assert "anybound[lp]" in capsys.readouterr().err
    assert {m.row for m in measured(tmp_path)} == {"WK", "Slopes 20"}


def test_a_method_keeps_its_colour_whatever_is_beside_it() -> None:
    few = Style.of([("Proximal 400", "Proximal"), (OWN, OWN)])
    many = Style.of(
        [("Proximal 200", "Proximal"), ("Proximal 400", "Proximal"), ("LP", "LP"), (OWN, OWN)]
    )
    for label in ("Proximal 400", OWN):
        assert few.looks[label].colour == many.looks[label].colour
    assert len({look.colour for look in many.looks.values()}) == 3
    assert many.labels[-1] == OWN


# How reds, greens and blues (linear) look to eyes that lack one kind of cone: Machado, Oliveira and Fernandes, 2009.
VISIONS = {
    "normal": np.eye(3),
    "protan": [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]],
    "deutan": [[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]],
    "tritan": [[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def lab(colour: str, vision: object) -> np.ndarray:
    """A colour's place in CIE L*a*b*, in which a distance of 2 is just seen."""
    levels = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(levels <= 0.04045, levels / 12.92, ((levels + 0.055) / 1.055) ** 2.4)
    x, y, z = np.cbrt(
        TO_XYZ @ np.clip(np.asarray(vision) @ linear, 0, 1) / (0.9505, 1.0, 1.089) + 1e-9
    )
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("vision", VISIONS)
def test_colours_differ_to_all_eyes(vision: str) -> None:
    seen = [lab(c, VISIONS[vision]) for c in dict.fromkeys((*COLOURS.values(), *SPARE))]
    apart = [float(np.linalg.norm(a - b)) for i, a in enumerate(seen) for b in seen[:i]]
    assert min(apart) > 8


def test_orderings_stand_beside_the_original_codes(folder: Path) -> None:
    """Where its bounds are known: here as if they were known for one image, and half of them in the order."""
    found = [m for m in measured(folder) if m.role == "madry" and m.row in ("WK", "IP")]
    wk = (1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0)
    original = {"WK": wk, "IP": (0.5,) * 9}
    first = min(m.image for m in found)
    found = [replace(m, original=original[m.row] if m.image == first else ()) for m in found]
    margins = Margins.of([Measurement.of(m.record()) for m in found], "madry")
    assert margins is not None
    assert margins.originally_better("WK", "IP") == (pytest.approx(500 / 9), 1)
    largest = np.abs(np.array(margins.by_row["WK"][0].lower) - np.array(wk)).max()
    assert margins.from_original("WK") == pytest.approx(largest)
    assert "from original" in summary.table(margins).text
    assert "100.0 % (55.6 %, 1)" in orderings.table([margins]).text


def test_a_table_in_three_forms() -> None:
    table = Table("Gap & time", ("method", "gap"), [["a_b", 0.012345], ["c|d", 12345.6]], ["100 %"])
    assert table.text.splitlines()[2:] == [
        "method     gap", "--------------", "a_b     0.0123", "c|d     12,346", "", "100 %",
    ]  # fmt: skip
    assert "| c\\|d | 12,346 |" in table.markdown
    assert r"a\_b & 0.0123 \\" in table.latex
    assert r"\caption{Gap \& time. 100 \%}" in table.latex
