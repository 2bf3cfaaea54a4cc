"""`anybound generate`: what it writes is true, the same again after a kill, and bad input is one line."""

import csv
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from anybound import bundled, read_vnnlib, verify
from anybound.cli.main import main
from anybound.io.replay import Replay
from anybound.outcome import Verdict
from anybound.training.architectures import ARCHITECTURES, Normalise
from anybound.training.datasets.digits import digits
from anybound.training.onnx_export import to_onnx

CONV = bundled("digits_conv.onnx")
MEAN, STD = (0.485, 0.456, 0.406), (0.225, 0.225, 0.225)
Capture = pytest.CaptureFixture[str]

torch.set_num_threads(1)


def run(capsys: Capture, *arguments: object) -> tuple[int, str, str]:
    code = main(["generate", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def table(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_properties_are_as_their_lists_say(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "conv"
    code, out, err = run(capsys, CONV, "-o", folder, "--count", 3, "--precision", 0.2, "--json")
    assert code == 0
    assert re.match(r"\[1/3\] image 0: class 6 against \d, ε = ", err)
    summary = json.loads(out)
    assert (summary["images"], summary["properties"], summary["misclassified"]) == (3, 3, 0)
    rows, test = table(folder / "properties.csv"), digits().test
    instances = list(csv.reader((folder / "instances.csv").open()))
    assert instances == [["onnx/digits_conv.onnx", f"vnnlib/{row['name']}", "3600"] for row in rows]
    expected = list(csv.reader((folder / "expected.csv").open()))
    assert expected[0] == ["onnx", "vnnlib", "expected"]
    assert [line[:2] for line in expected[1:]] == [line[:2] for line in instances]
    replay = Replay.of(CONV)
    for row in rows:
        image, label, target = (int(row[name]) for name in ("idx", "label", "target"))
        assert row["name"] == f"digits_conv-idx{image}-target{target}-eps{row['epsilon']}.vnnlib"
        assert 0 < float(row["holds"]) < float(row["epsilon"]) < float(row["violated"])
        center = test.images(slice(image, image + 1)).numpy().reshape(-1)
        prop = read_vnnlib(folder / "vnnlib" / row["name"])
        (clause,) = prop.clauses
        epsilon = np.float64(row["epsilon"])
        low, high = (np.clip(center + sign * epsilon, 0, 1) for sign in (-1, 1))
        np.testing.assert_allclose(clause.input_set.lower, low, atol=1e-7)
        np.testing.assert_allclose(clause.input_set.upper, high, atol=1e-7)
        assert label == int(test.labels[image]) == int(replay(center).argmax()) != target
        tie = np.zeros(10)
        assert prop.violated_by(center, tie)
        tie[label] = 1e-6
        assert not prop.violated_by(center, tie)
        tie[(target + 1) % 10 if (target + 1) % 10 != label else (target + 2) % 10] = 1
        assert not prop.violated_by(center, tie)


@pytest.mark.parametrize(
    ("at", "expected", "verdict"), [(0, "unsat", Verdict.HOLDS), (1, "sat", Verdict.VIOLATED)]
)
def test_the_ends_of_the_bracket_are_proved_and_broken(
    at: int, expected: str, verdict: Verdict, tmp_path: Path, capsys: Capture
) -> None:
    options = ("--at", at, "--count", 2, "--target", "all", "--precision", 0.2, "-q")
    assert run(capsys, CONV, "-o", tmp_path / "f", *options)[0] == 0
    for row in table(tmp_path / "f" / "properties.csv"):
        assert (row["expected"], row["target"]) == (expected, "")
        path = tmp_path / "f" / "vnnlib" / row["name"]
        assert len(read_vnnlib(path).clauses) == 9
        assert verify(CONV, path, timeout=60).verdict is verdict


def test_the_radius_is_within_the_exact_bracket(tmp_path: Path, capsys: Capture) -> None:
    """Complete search proves what bounds prove, and finds a witness where the attack does."""
    options = ("--count", 1, "--target", "runner-up", "--precision", 0.2, "-q")
    assert run(capsys, CONV, "-o", tmp_path / "f", *options)[0] == 0
    (row,) = table(tmp_path / "f" / "properties.csv")
    text = (tmp_path / "f" / "vnnlib" / row["name"]).read_text()
    scores = Replay.of(CONV)(digits().test.images(slice(0, 1)).numpy().reshape(-1))
    assert int(row["target"]) == np.argsort(scores)[-2]
    assert f"(assert (<= Y_{row['label']} Y_{row['target']}))" in text
    assert float(row["margin"]) == pytest.approx(np.sort(scores)[-1] - np.sort(scores)[-2])


def test_a_killed_run_ends_with_the_same_files(tmp_path: Path, capsys: Capture) -> None:
    options = ["--count", "3", "--precision", "0.4", "--threads", "1"]
    folder, whole = tmp_path / "killed", tmp_path / "whole"
    command = [sys.executable, "-m", "anybound", "generate", str(CONV), *options, "-o", str(folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as child:
        assert child.stderr is not None
        assert child.stderr.readline().startswith("[1/3] image 0")
        child.send_signal(signal.SIGKILL)
    records = folder / "properties.jsonl"
    records.write_bytes(records.read_bytes() + b'{"image": 2, "la')  # torn
    code, _, err = run(capsys, CONV, *options, "-o", folder)
    assert code == 0
    assert "of 3 images are done already" in err
    assert run(capsys, CONV, *options[:1], "1", *options[2:], "-o", whole)[0] == 0
    assert run(capsys, CONV, *options, "-o", whole)[0] == 0
    assert files(folder) == files(whole)
    started = time.monotonic()
    assert run(capsys, CONV, *options, "-o", whole, "--timeout", 60, "--json")[0] == 0
    assert (whole / "instances.csv").read_text().splitlines()[2].endswith(",60")
    assert time.monotonic() - started < 10
    before = files(whole)
    code, _, err = run(capsys, CONV, *options, "-o", whole, "--seed", 1)
    assert code == 2
    assert "is of a run with seed 0, not 1" in err
    assert files(whole) == before


def test_normalised_images_as_in_the_papers_data_sets(tmp_path: Path, capsys: Capture) -> None:
    """Boxes are in the network's own space, and unclipped if asked for; the record says how it reads."""
    shape = (3, 32, 32)
    torch.manual_seed(0)
    network = tmp_path / "net.onnx"
    network.write_bytes(
        to_onnx(ARCHITECTURES["base"](shape, 10), shape, 10, "n").SerializeToString()
    )
    (tmp_path / "net.json").write_text(json.dumps({"mean": MEAN, "std": STD, "input": {"a": 1}}))
    images = np.random.default_rng(0).integers(0, 256, (3, *shape), dtype=np.uint8)
    x = Normalise(MEAN, STD)(torch.from_numpy(images).float() / 255).numpy()
    labels = [int(Replay.of(network)(point.reshape(-1)).argmax()) for point in x]
    labels[1] = (labels[1] + 1) % 10
    np.savez(tmp_path / "images.npz", images=images, labels=labels)
    data = ("--dataset", "cifar10", "--data", tmp_path / "images.npz", "--precision", 0.5)
    for clipped in (True, False):
        folder = tmp_path / f"clipped {clipped}"
        own = () if clipped else ("--unclipped", "--gzip")
        code, _, err = run(capsys, network, *data, "-o", folder, *own)
        assert code == 0
        assert "[2/3] image 1: no property: misclassified" in err
        for row in table(folder / "properties.csv"):
            path = folder / "vnnlib" / row["name"]
            assert path.name.endswith(".vnnlib" if clipped else ".vnnlib.gz")
            content = path.read_bytes()
            text = (content if clipped else gzip.decompress(content)).decode()
            assert text.count("declare-const") == 3082
            box = read_vnnlib(path).clauses[0].input_set
            center = x[int(row["idx"])].reshape(-1)
            low, high = (center + sign * float(row["epsilon"]) for sign in (-1, 1))
            if clipped:
                ends = Normalise(MEAN, STD)(
                    torch.tensor([0.0, 1.0]).reshape(2, 1, 1, 1).expand(2, *shape)
                )
                low, high = (
                    np.maximum(low, ends[0].numpy().ravel()),
                    np.minimum(high, ends[1].numpy().ravel()),
                )
            np.testing.assert_allclose(box.lower, low, atol=1e-5)
            np.testing.assert_allclose(box.upper, high, atol=1e-5)
    (tmp_path / "net.json").unlink()
    blank = int(Replay.of(network)(np.zeros(3072)).argmax())
    np.savez(tmp_path / "images.npz", images=images[:1] * 0, labels=[(blank + 1) % 10])
    code, _, err = run(capsys, network, *data, "-o", tmp_path / "g")
    assert code == 0
    assert "say so with --mean and --std" in err
    code, _, err = run(capsys, network, *data, "-o", tmp_path / "f", "--mean", 0.5, "--std", 1)
    assert code == 2
    assert "mean: 1 numbers; expected 3" in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["missing.onnx", "-o", "f"], "missing.onnx: no such file"),
        ([CONV], "--output"),
        ([CONV, "-o", "f", "--dataset", "mnist"], "--data: mnist needs"),
        ([CONV, "-o", "f", "--start", "360"], "--start: 360; there are 360 test images"),
        ([CONV, "-o", "f", "--at", "1.5"], "'1.5' is not a number from 0 to 1"),
        ([CONV, "-o", "f", "--precision", "1"], "--precision: 1.0; expected"),
        ([CONV, "-o", "f", "--method", "slope"], "did you mean 'slopes'?"),
        ([CONV, "-o", "f", "--target", "7"], "unknown --target '7'"),
        ([CONV, "-o", "f", "--mean", "1"], "--mean and --std: expected as many numbers"),
        ([CONV, "-o", "f", "--mean", "1", "--std", "0"], "those of --std above 0"),
        ([CONV, "-o", "file"], "file: is a file, expected a folder"),
        ([CONV, "-o", "others"], "is of a run with"),
        ([CONV, "-o", "torn"], "no JSON object"),
        (["net.onnx", "-o", "f"], "net.json: is no JSON"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[object],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    Path("others").mkdir()
    Path("others/properties.jsonl").write_text('{"image": 1}\n')
    Path("torn").mkdir()
    Path("torn/properties.jsonl").write_text("[]\n")
    Path("net.onnx").write_bytes(CONV.read_bytes())
    Path("net.json").write_text("{")
    before = files(tmp_path)
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1
    assert files(tmp_path) == before


def test_images_of_another_size_are_refused(tmp_path: Path, capsys: Capture) -> None:
    np.savez(tmp_path / "i.npz", images=np.zeros((1, 28, 28), np.uint8), labels=[0])
    data = ("--dataset", "mnist", "--data", tmp_path / "i.npz")
    code, _, err = run(capsys, CONV, "-o", tmp_path / "f", *data)
    assert code == 2
    assert "the network reads [1, 1, 8, 8], but images are [1, 28, 28]" in err
    assert not (tmp_path / "f").exists()
