"""`anybound attack` as people and scripts meet it."""

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import anybound
from anybound.cli.main import main

DATA = Path(anybound.__file__).parent / "data"
NETWORK = DATA / "networks" / "digits_residual.onnx"
VIOLATED = DATA / "properties" / "digits_residual_image5_eps0.06.vnnlib"
HOLDS = DATA / "properties" / "digits_residual_image5_eps0.02.vnnlib"

Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    code = main(["attack", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_witness_is_printed_whole_and_the_same_for_the_same_seed(capsys: Capture) -> None:
    code, out, _ = run(capsys, str(NETWORK), str(VIOLATED), "--json", "--seed", "3")
    record = json.loads(out)
    assert code == 0
    assert record["seconds"] > 0
    witness = record["witness"]
    session = onnxruntime.InferenceSession(NETWORK, providers=["CPUExecutionProvider"])
    value = session.get_inputs()[0]
    x = np.array(witness["input"], dtype=np.float32).reshape(1, *value.shape[1:])
    (y,) = session.run(None, {value.name: x})
    assert y.reshape(-1).astype(float).tolist() == witness["output"]
    clause = anybound.read_vnnlib(VIOLATED).clauses[witness["clause"]]
    assert (clause.matrix @ witness["output"] <= clause.offset).all()
    _, again, _ = run(capsys, str(NETWORK), str(VIOLATED), "--json", "--seed", "3")
    assert json.loads(again)["witness"] == witness


def test_finding_none_is_no_failure(capsys: Capture) -> None:
    code, out, _ = run(capsys, str(NETWORK), str(HOLDS), "--json", "--timeout", "0.5")
    record = json.loads(out)
    assert code == 0
    assert record["witness"] is None
    assert record["seconds"] < 5


def test_people_read_lines(capsys: Capture) -> None:
    code, out, _ = run(capsys, str(NETWORK), str(VIOLATED))
    assert code == 0
    assert out.startswith("violated: clause ")
    assert "output of the original model: " in out
    code, out, _ = run(capsys, str(NETWORK), str(HOLDS), "--timeout", "0.5")
    assert code == 0
    assert out.startswith("no witness found")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--seed", "1.5"], "'1.5' is not a whole number"),
        (["--seed", "-1"], "'-1' is not a whole number"),
        (["--timeout", "0"], "'0' is not a number of seconds above 0"),
    ],
)
def test_bad_arguments(arguments: list[str], says: str, capsys: Capture) -> None:
    code, out, err = run(capsys, str(NETWORK), str(HOLDS), *arguments)
    assert code == 2
    assert not out
    assert says in err


def test_a_property_of_another_network_is_refused(tmp_path: Path, capsys: Capture) -> None:
    other = tmp_path / "other.vnnlib"
    other.write_text(
        "(declare-const X_0 Real)(declare-const Y_0 Real)"
        "(assert (>= X_0 0))(assert (<= X_0 1))(assert (<= Y_0 0))"
    )
    code, _, err = run(capsys, str(NETWORK), str(other))
    assert code == 2
    assert "is it the property of another network?" in err
