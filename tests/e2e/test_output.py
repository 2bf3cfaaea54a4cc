"""The fields that docs/output.md describes are those that `--json` prints, neither more nor fewer."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from documents import ROOT, run

from anybound import bundled

NET, PROP = str(bundled("digits_dense.onnx")), str(bundled("digits_dense_image0_eps0.05.vnnlib"))
PAGE = (ROOT / "docs" / "output.md").read_text(encoding="utf-8")
AROUND = ["--center", "image.npy"]


def described(command: str) -> set[str]:
    """The fields in the first column of a command's table."""
    section = PAGE.split(f"\n## {command}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def printed(*words: str) -> dict[str, Any]:
    code, out, err = run(["anybound", *words, "--json"])
    assert code == 0, err
    assert out.count("\n") == 1
    record: dict[str, Any] = json.loads(out)
    return record


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("image.npy", np.zeros((8, 8)))


def test_verify_and_check() -> None:
    assert printed("verify", NET, PROP, "--certificate", "p.abc").keys() == described("verify")
    assert printed("check", NET, PROP, "p.abc").keys() == described("check")


def test_bench() -> None:
    Path("list.csv").write_text(f"{NET},{PROP},60\n")
    printed("bench", "list.csv", "-o", "run.jsonl")
    record = json.loads(Path("run.jsonl").read_text())
    assert record.keys() == described("bench") | described("verify")


@pytest.mark.parametrize(
    "words",
    [
        ("bounds", NET, *AROUND, "--epsilon", "0.01"),
        ("radius", NET, *AROUND, "--label", "3", "--precision", "0.5"),
        ("attack", NET, PROP, "--timeout", "0.2"),
    ],
    ids=lambda words: str(words[0]),
)
def test_other_questions(words: tuple[str, ...]) -> None:
    assert printed(*words).keys() == described(words[0])


def test_a_witness_has_the_fields_described() -> None:
    wrong = str(bundled("digits_dense_image4_eps0.1.vnnlib"))
    witness = printed("attack", NET, wrong)["witness"]
    assert witness.keys() == {"input", "output", "clause"}


def test_a_failure_is_an_object_too() -> None:
    code, out, _ = run(["anybound", "verify", NET, "nowhere.vnnlib", "--json"])
    assert code == 2
    assert json.loads(out).keys() == {"error"}
