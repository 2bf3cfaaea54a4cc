"""The checker as a command, and the commands of anybound that use it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from anybound.cli import main as module
from anybound.cli.main import main
from anybound_check.__main__ import main as check

DATA = Path(module.__file__).parents[1] / "data"
DENSE, CONV = (DATA / "networks" / f"digits_{kind}.onnx" for kind in ("dense", "conv"))
SEARCHED = DATA / "properties" / "digits_dense_image2_5_eps0.08.vnnlib"
OTHER = DATA / "properties" / "digits_dense_image0_eps0.05.vnnlib"
VIOLATED = DATA / "properties" / "digits_conv_image11_eps0.15.vnnlib"

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def proof(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    """A certificate of a property that needs a search, and the record of the run."""
    path = tmp_path_factory.mktemp("proof") / "proof.abc"
    options = ["--certificate", str(path), "--certify", "--json"]
    run = subprocess.run(
        [sys.executable, "-m", "anybound", "verify", str(DENSE), str(SEARCHED), *options],
        capture_output=True,
        text=True,
        check=True,
    )
    return path, json.loads(run.stdout)


def test_a_certificate_is_written_checked_and_accepted(
    proof: tuple[Path, dict[str, object]], capsys: Capture
) -> None:
    path, record = proof
    assert record["verdict"] == "holds"
    assert record["certified"] is True
    assert "certificate" in record["phases"]  # type: ignore[operator]
    assert check([str(DENSE), str(SEARCHED), str(path)]) == 0
    assert capsys.readouterr().out == "VALID (real)\n"


def test_both_commands_say_the_same(proof: tuple[Path, dict[str, object]], capsys: Capture) -> None:
    files = [str(DENSE), str(SEARCHED), str(proof[0]), "--json"]
    said = []
    for command in (check, lambda files: main(["check", *files])):
        assert command(files) == 0
        said.append(json.loads(capsys.readouterr().out))
    for report in said:
        assert report.keys() == {"valid", "reason", "semantics", "seconds"}
        assert (report["valid"], report["reason"], report["semantics"]) == (True, "", "real")


def test_it_runs_without_torch_and_anybound(proof: tuple[Path, dict[str, object]]) -> None:
    program = (
        "import sys\n"
        "from anybound_check.__main__ import main\n"
        f"code = main({[str(DENSE), str(SEARCHED), str(proof[0])]!r})\n"
        "loaded = {name.partition('.')[0] for name in sys.modules}\n"
        "sys.exit(3 if loaded & {'torch', 'anybound', 'scipy', 'numba'} else code)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (run.returncode, run.stdout) == (0, b"VALID (real)\n")


def test_a_certificate_is_about_its_files(
    proof: tuple[Path, dict[str, object]], capsys: Capture
) -> None:
    assert check([str(DENSE), str(OTHER), str(proof[0])]) == 1
    assert capsys.readouterr().out == "INVALID: the certificate is about another property\n"
    assert check([str(CONV), str(SEARCHED), str(proof[0])]) == 1
    assert capsys.readouterr().out == "INVALID: the certificate is about another network\n"


@pytest.mark.parametrize("place", range(3))
def test_unreadable_files_exit_with_two(
    place: int, proof: tuple[Path, dict[str, object]], tmp_path: Path, capsys: Capture
) -> None:
    files = [str(DENSE), str(SEARCHED), str(proof[0])]
    for content in (None, b"", b"\x00\xff nonsense"):
        bad = tmp_path / "bad"
        if content is not None:
            bad.write_bytes(content)
        files[place] = str(bad)
        # a changed network or property is another one than the certificate speaks of
        expected = (1, 2) if content is not None and place < 2 else (2,)
        assert check(files) in expected
        assert capsys.readouterr().out.startswith("INVALID: ")


def test_a_witness_is_replayed(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "witness.txt"
    arguments = [str(CONV), str(VIOLATED), "--certificate", str(path), "--certify", "--json"]
    assert main(["verify", *arguments]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["verdict"], record["certified"]) == ("violated", True)
    files = [str(CONV), str(VIOLATED), str(path)]
    assert check(files) == 0
    assert capsys.readouterr().out == "VALID (witness: real and onnxruntime)\n"
    text = path.read_text()
    first = text.split("(X_0 ", 1)[1].split(")", 1)[0]
    for change, reason in (
        (("(X_0 ", "(X_999 "), "lacks an input"),
        ((f"(X_0 {first}", "(X_0 7.5"), "outside the input set"),
        ((f"(X_0 {first}", "(X_0 nan"), "lacks an input"),
    ):
        path.write_text(text.replace(*change))
        assert check(files) in (1, 2)
        assert reason in capsys.readouterr().out


def test_an_input_that_is_not_unsafe_is_no_witness(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "witness.txt"
    lines = SEARCHED.read_text().splitlines()
    lows = {line.split()[2]: line for line in lines if line.startswith("(assert (>= X_")}
    values = [f"({name} {float(line.split()[3].strip(')'))!r})" for name, line in lows.items()]
    path.write_text("sat\n(" + "\n".join(values or ["(X_0 0)"]) + ")\n")
    assert check([str(DENSE), str(SEARCHED), str(path)]) in (1, 2)
    assert capsys.readouterr().out.startswith("INVALID: ")


def test_float32_semantics_are_kept_in_the_file(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "proof.abc"
    options = ["--certificate", str(path), "--certify", "--semantics", "float32"]
    assert main(["verify", str(DENSE), str(OTHER), *options]) == 0
    assert "certified" in capsys.readouterr().err
    assert check([str(DENSE), str(OTHER), str(path)]) == 0
    assert capsys.readouterr().out == "VALID (float32)\n"


def test_without_a_proof_there_is_no_file(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "proof.abc"
    options = ["--certificate", str(path), "--certify", "--no-search", "--json"]
    assert main(["verify", str(DENSE), str(SEARCHED), *options]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["verdict"] != "holds"
    assert record["certified"] is False
    assert not path.exists()
