"""`anybound train`: the network, its record, going on after a kill, and bad input."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from anybound.cli.main import main
from anybound.training.datasets.digits import digits

Capture = pytest.CaptureFixture[str]
FAST = ("--model", "dense", "--epochs", "6", "--batch", "50", "--steps", "3", "--threads", "1")


def run(capsys: Capture, *arguments: object) -> tuple[int, str, str]:
    code = main(["train", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_network_and_its_record(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "net.onnx"
    code, out, err = run(capsys, "-o", path, *FAST, "--json")
    assert (code, err) == (0, "")
    record = json.loads(out)
    written = json.loads((tmp_path / "net.json").read_text())
    assert {name: record[name] for name in written} == written
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    test = digits().test
    right = sum(
        int(session.run(None, {"input": image[None].numpy()})[0].argmax()) == int(label)
        for image, label in zip(test.images(slice(None)), test.labels, strict=True)
    )
    assert record["accuracy"] == pytest.approx(right / len(test), abs=5e-5)
    assert record["accuracy"] > 0.6
    assert record["accuracy_under_pgd"] <= record["accuracy"]
    code, out, err = run(capsys, "-o", path, *FAST, "--training", "pgd", "-v")
    assert code == 0
    assert "epoch 6 of 6: loss" in err
    assert "\x1b" not in out + err
    assert "under a PGD attack" in out


def test_a_killed_training_goes_on(tmp_path: Path) -> None:
    """Killed without warning after a checkpoint; the weights are those of a run in one go."""
    arguments = [*FAST[:2], "--training", "pgd", "--batch", "40", "--steps", "20", "--epochs", "5"]

    def command(path: Path) -> list[str]:
        return [
            sys.executable,
            "-m",
            "anybound",
            "train",
            "-o",
            str(path),
            *arguments,
            "-q",
            "--threads",
            "1",
        ]

    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    whole, path = tmp_path / "whole.onnx", tmp_path / "net.onnx"
    checkpoint = tmp_path / "net.onnx.checkpoint"
    first = [*command(path), "--checkpoint-every", "0.05"]
    with subprocess.Popen(first, env=environment, stderr=subprocess.PIPE) as child:
        limit = time.monotonic() + 60
        while not checkpoint.exists() and child.poll() is None and time.monotonic() < limit:
            time.sleep(0.02)
        child.send_signal(signal.SIGKILL)
    assert checkpoint.exists()
    assert not path.exists()
    done = subprocess.run(
        command(path), env=environment, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert main(command(whole)[3:]) == 0
    assert path.read_bytes() == whole.read_bytes()
    assert not checkpoint.exists()


def test_images_from_a_folder_and_a_normalised_network(tmp_path: Path, capsys: Capture) -> None:
    random = np.random.default_rng(0)
    rows = random.integers(0, 256, (64, 3073), dtype=np.uint8)
    rows[:, 0] %= 10
    for name in ("data_batch_1.bin", "test_batch.bin"):
        (tmp_path / name).write_bytes(rows.tobytes())
    data = ("--dataset", "cifar10", "--data", tmp_path, "--normalised", "--limit", 32)
    options = ("--training", "pgd", "--epsilon", "8/255", "--steps", 2, "--epochs", 1)
    code, out, err = run(capsys, "-o", tmp_path / "net.onnx", *data, *options, "--json")
    assert (code, err) == (0, "")
    record = json.loads(out)
    assert (record["model"], record["parameters"], record["images"]) == ("base", 105_966, 32)
    assert (record["input"], record["mean"]) == ("normalised", [0.485, 0.456, 0.406])
    assert record["epsilon"] == pytest.approx(8 / 255)
    rows[3, 0] = 17
    (tmp_path / "test_batch.bin").write_bytes(rows.tobytes())
    code, _, err = run(capsys, "-o", tmp_path / "net.onnx", *data)
    assert code == 2
    assert "test_batch.bin: label 17; expected 0 to 9" in err


def test_an_interrupt_is_130(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "anybound", "train", "-o", str(tmp_path / "net.onnx"), "-v"]
    arguments = ["--model", "dense", "--epochs", "100000", "--threads", "1"]
    with subprocess.Popen([*command, *arguments], stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr is not None
        assert "epoch 1 of 100000" in child.stderr.readline()
        child.send_signal(signal.SIGTERM)
        rest = child.stderr.read()
    assert child.returncode == 130
    assert "Traceback" not in rest
    assert rest.rstrip().endswith("interrupted")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "--output"),
        (["-o", "net.pt"], "ends in .onnx"),
        (["-o", "missing/net.onnx"], "there is no folder 'missing'"),
        (["-o", "a\0b.onnx"], "cannot be written: embedded null byte"),
        (["-o", f"{'a' * 300}.onnx"], "File name too long"),
        (["-o", "net.onnx", "--model", "bsae"], "did you mean 'base'?"),
        (["-o", "net.onnx", "--dataset", "digit"], "did you mean 'digits'?"),
        (["-o", "net.onnx", "--data", "folder"], "digits come with scikit-learn"),
        (["-o", "net.onnx", "--dataset", "cifar10"], "https://www.cs.toronto.edu"),
        (["-o", "net.onnx", "--dataset", "mnist", "--data", "x"], "x: no such folder or file"),
        (["-o", "net.onnx", "--epsilon", "8/0"], "'8/0' is not a number above 0"),
        (["-o", "net.onnx", "--epsilon", "-1"], "'-1' is not a number above 0"),
        (["-o", "net.onnx", "--epsilon", "8"], "pixels are in [0, 1] (8 of 255 levels are 8/255)"),
        (["-o", "net.onnx", "--dataset", "mnist", "--data", ""], "'': no such folder or file"),
        (["-o", "net.onnx", "--epsilon", "much"], "'much' is not a finite number"),
        (["-o", "net.onnx", "--epochs", "0"], "'0' is not a whole number above 0"),
        (["-o", "net.onnx", "--momentum", "1"], "--momentum: 1.0; expected"),
        (["-o", "net.onnx", "--optimiser", "adamw", "--momentum", "0.5"], "adamw has none"),
        (["-o", "net.onnx", "--weight-decay", "-1"], "expected a number >= 0"),
        (["-o", "net.onnx", "--learning-rate", "nan"], "'nan' is not a finite number"),
        (["-o", "net.onnx", "--seed", "-1"], "'-1' is not a whole number"),
    ],
)
def test_bad_arguments(
    arguments: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_digits_without_scikit_learn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    code, _, err = run(capsys, "-o", tmp_path / "net.onnx")
    assert code == 2
    assert "pip install 'anybound[train]'" in err


def test_another_recipe_does_not_go_on(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "net.onnx"
    checkpoint = tmp_path / "net.onnx.checkpoint"
    checkpoint.write_bytes(b"PK\3\4 torn")
    code, _, err = run(capsys, "-o", path, *FAST)
    assert code == 2
    assert "no checkpoint of this training" in err
    assert checkpoint.exists()
    assert torch.get_num_threads() == 1
