"""Training: the paper's architectures, resuming bit by bit, and checkpoints that are refused."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from torch import nn

from anybound.errors import InvalidConfig, InvalidInput, InvalidModel
from anybound.io.onnx_reader import load
from anybound.training import names
from anybound.training.architectures import ARCHITECTURES, Normalise
from anybound.training.checkpoint import Checkpoint
from anybound.training.datasets.dataset import Dataset, Split
from anybound.training.fit import Fit, Training, train
from anybound.training.onnx_export import to_onnx
from anybound.training.optimisers import AdamW, Optimiser, Sgd
from anybound.training.pgd import Pgd
from anybound.training.recipe import Recipe, make

CIFAR = (3, 32, 32)
MEAN, STD = (0.485, 0.456, 0.406), (0.225, 0.225, 0.225)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def synthetic(count: int = 60, shape: tuple[int, int, int] = CIFAR, seed: int = 0) -> Split:
    """Images of ten classes, each with a colour of its own and noise: quickly learned."""
    random = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 10
    colours = torch.rand(10, shape[0], 1, 1, generator=torch.Generator().manual_seed(99))
    noise = torch.randn(count, *shape, generator=random) * 0.1
    return Split(((colours[labels] + noise).clamp(0, 1) * 255).to(torch.uint8), labels)


DATASET = Dataset("cifar10", 10, synthetic(120), synthetic(40, seed=1), MEAN, STD)


def weights(model: nn.Module) -> torch.Tensor:
    return torch.cat([parameter.flatten() for parameter in model.parameters()])


@pytest.mark.parametrize(
    ("name", "relus", "parameters"),
    [
        ("base", 3172, 105_966),
        ("wide", 6244, 214_918),
        ("deep", 6756, 54_902),
        ("small", 6244, 214_918),
    ],
)
def test_the_papers_networks_have_the_papers_sizes(name: str, relus: int, parameters: int) -> None:
    model, found = ARCHITECTURES[name](CIFAR, 10), 0
    x = torch.zeros(1, *CIFAR)
    for layer in model:
        x = layer(x)
        found += x.numel() if isinstance(layer, nn.ReLU) else 0
    assert (found, weights(model).numel()) == (relus, parameters)


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("base", "cifar_base_kw"),
        ("wide", "cifar_wide_kw"),
        ("deep", "cifar_deep_kw"),
        ("small", "cifar_madry_8px"),
    ],
)
def test_exports_have_the_nodes_of_the_papers_files(name: str, file: str) -> None:
    folder = os.environ.get("ANYBOUND_BENCHMARKS")
    if folder is None:
        pytest.skip("ANYBOUND_BENCHMARKS names no folder")
    theirs = onnx.load(Path(folder) / "paper" / "networks" / f"{file}.onnx")
    ours = to_onnx(ARCHITECTURES[name](CIFAR, 10), CIFAR, 10, name)

    def form(proto: onnx.ModelProto) -> list[object]:
        strides = [
            [list(a.ints) for a in n.attribute if a.name == "strides"] for n in proto.graph.node
        ]
        pads = [[list(a.ints) for a in n.attribute if a.name == "pads"] for n in proto.graph.node]
        shapes = [tuple(w.dims) for w in proto.graph.initializer]
        return [[n.op_type for n in proto.graph.node], strides, pads, shapes]

    assert form(ours) == form(theirs)


def test_names_are_those_of_the_architectures() -> None:
    assert set(names.MODELS) == set(ARCHITECTURES)
    assert set(names.DATASETS) == set(names.EPSILONS)


@pytest.mark.parametrize("optimiser", [Sgd(), AdamW()], ids=["sgd", "adamw"])
@pytest.mark.parametrize("attack", [None, Pgd(8 / 255, steps=2)], ids=["plain", "pgd"])
@pytest.mark.parametrize("stop", [1, 4, 5, 8])
def test_a_resumed_training_ends_with_the_same_weights(
    optimiser: Optimiser, attack: Pgd | None, stop: int, tmp_path: Path
) -> None:
    """Stopped inside an epoch (of 4 batches), at its end, and after all of them."""
    split, training = synthetic(), Training(2, 16, optimiser, attack, seed=3)

    def build() -> nn.Sequential:
        return ARCHITECTURES["conv"](CIFAR, 10)

    whole = Fit(build, split, training)
    while not whole.is_done:
        whole.step()
    first = Fit(build, split, training)
    for _ in range(stop):
        first.step()
    Checkpoint(tmp_path / "state", {"a": 1}).write(first)
    second = Fit(build, split, training)
    assert Checkpoint(tmp_path / "state", {"a": 1}).restore(second)
    while not second.is_done:
        second.step()
    assert torch.equal(weights(second.model), weights(whole.model))
    assert np.array_equal(second.history, whole.history)
    assert second.history.shape == (2, 2)


def test_what_is_learned(tmp_path: Path) -> None:
    recipe = Recipe("base", Training(15, 20, Sgd(0.02)), Pgd(1 / 255, steps=2))
    record = make(recipe, DATASET, tmp_path / "base.onnx")
    assert isinstance(record["accuracy"], float)
    assert record["accuracy"] > 0.8
    assert json.loads((tmp_path / "base.json").read_text()) == record
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base.json", "base.onnx"]


@pytest.mark.parametrize("pixels", [True, False])
def test_the_file_reads_pixels_or_normalised_images(pixels: bool, tmp_path: Path) -> None:
    recipe = Recipe("base", Training(1, 40, Sgd()), Pgd(0.01, 1), pixels)
    record = make(recipe, DATASET, tmp_path / "base.onnx")
    network = load(tmp_path / "base.onnx")
    images = DATASET.test.images(slice(None))
    read = images if pixels else Normalise(MEAN, STD)(images)
    found = torch.cat([network.forward(image[None].double()) for image in read]).argmax(dim=1)
    accuracy = (found == DATASET.test.labels).double().mean()
    assert record["accuracy"] == pytest.approx(float(accuracy), abs=5e-5)
    assert (record["input"], record["mean"]) == ("pixels" if pixels else "normalised", list(MEAN))


def test_training_against_an_attack_withstands_it(tmp_path: Path) -> None:
    """ε is in pixels, though the network normalises them."""
    epsilon, accuracies = 0.04, {}
    for attack in (None, Pgd(epsilon, 5)):
        recipe = Recipe("conv", Training(10, 20, AdamW(), attack), Pgd(epsilon, 20))
        record = make(recipe, DATASET, tmp_path / "conv.onnx")
        accuracies[attack] = record["accuracy_under_pgd"]
    plain, robust = accuracies.values()
    assert isinstance(plain, float)
    assert isinstance(robust, float)
    assert robust > plain


def test_the_attack_stays_within_epsilon_and_the_valid_range() -> None:
    model = nn.Sequential(Normalise(MEAN, STD), *ARCHITECTURES["conv"](CIFAR, 10))
    x, y = DATASET.test.images(slice(None)), DATASET.test.labels
    attacked = Pgd(8 / 255, 50)(model, x, y, torch.Generator().manual_seed(0))
    assert (attacked - x).abs().max() <= 8 / 255 + 1e-6
    assert 0 <= attacked.min() <= attacked.max() <= 1


def test_a_training_that_diverges_is_told_so(tmp_path: Path) -> None:
    recipe = Recipe("base", Training(4, 20, Sgd(learning_rate=1e6)), Pgd(0.01, 1))
    with pytest.raises(
        InvalidConfig, match=r"the loss is .* in epoch \d: .* smaller learning rate"
    ):
        make(recipe, DATASET, tmp_path / "base.onnx")
    assert not list(tmp_path.iterdir())


def test_a_file_that_computes_something_else_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoilt(*given: object) -> onnx.ModelProto:
        proto = to_onnx(*given)  # type: ignore[arg-type]
        bias = next(w for w in proto.graph.initializer if list(w.dims) == [10])
        bias.CopyFrom(onnx.numpy_helper.from_array(np.full(10, 0.5, np.float32), bias.name))
        return proto

    monkeypatch.setattr("anybound.training.recipe.to_onnx", spoilt)
    with pytest.raises(InvalidModel, match="not written"):
        make(Recipe("base", Training(1, 60, Sgd()), Pgd(0.01, 1)), DATASET, tmp_path / "base.onnx")
    assert not list(tmp_path.iterdir())


class _Killed(Exception):
    pass


def test_a_killed_training_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    recipe = Recipe("conv", Training(2, 16, Sgd(), Pgd(0.02, 1)), Pgd(0.02, 1))
    path, seen = tmp_path / "conv.onnx", []
    make(recipe, DATASET, path)
    whole = path.read_bytes()
    path.unlink()

    def run(stop: int | None) -> None:
        def watch(progress: object) -> None:
            seen.append(progress)
            if len(seen) == stop:
                raise _Killed

        make(recipe, DATASET, path, Checkpoint(tmp_path / "state", {"a": 1}, seconds=0), watch)

    with pytest.raises(_Killed):
        run(stop=5)
    (tmp_path / "state.partial").write_bytes(b"torn")
    with pytest.raises(_Killed):
        run(stop=16)
    assert not path.exists()
    run(stop=None)
    assert path.read_bytes() == whole
    assert not (tmp_path / "state").exists()


def test_a_checkpoint_of_another_training_is_refused(tmp_path: Path) -> None:
    split, training = synthetic(), Training(1, 30, Sgd())
    fit = Fit(lambda: ARCHITECTURES["conv"](CIFAR, 10), split, training)
    path = tmp_path / "state"
    Checkpoint(path, {"seed": 1}).write(fit)
    with pytest.raises(InvalidConfig, match=r"state: holds a training with seed 1, not 2"):
        Checkpoint(path, {"seed": 2}).restore(fit)
    other = Fit(lambda: ARCHITECTURES["deep"](CIFAR, 10), split, training)
    with pytest.raises(InvalidInput, match="no checkpoint"):
        Checkpoint(path, {"seed": 1}).restore(other)


def test_a_damaged_checkpoint_is_refused_and_never_unpickled(tmp_path: Path) -> None:
    fit = Fit(lambda: ARCHITECTURES["conv"](CIFAR, 10), synthetic(), Training(1, 30, Sgd()))
    path = tmp_path / "state"
    Checkpoint(path, {}).write(fit)
    whole = path.read_bytes()
    spoilt = bytearray(whole)
    spoilt[len(whole) // 2] ^= 255
    hostile = np.array([Hostile(tmp_path / "ran")], dtype=object)
    for content in (b"", whole[:100], whole[:-100], bytes(spoilt), b"PK\3\4"):
        path.write_bytes(content)
        with pytest.raises(InvalidInput, match="no checkpoint of this training"):
            Checkpoint(path, {}).restore(fit)
    with path.open("wb") as file:
        np.savez(file, recipe=np.array("{}"), epoch=hostile)
    with pytest.raises(InvalidInput, match="no checkpoint of this training"):
        Checkpoint(path, {}).restore(fit)
    assert not (tmp_path / "ran").exists()


class Hostile:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


def test_training_without_images_is_refused(tmp_path: Path) -> None:
    empty = Dataset("cifar10", 10, synthetic(0), synthetic(10))
    with pytest.raises(InvalidConfig, match="no images to train on"):
        make(Recipe("base", Training(), Pgd(0.1)), empty, tmp_path / "net.onnx")


def test_one_image_at_a_time_and_a_split_of_floats() -> None:
    split = Split(torch.rand(5, 1, 8, 8), torch.arange(5))
    train(lambda: ARCHITECTURES["dense"]((1, 8, 8), 10), split, Training(1, 10**30, Sgd()))
    model = train(lambda: ARCHITECTURES["dense"]((1, 8, 8), 10), split, Training(1, 1, Sgd()))
    assert torch.isfinite(weights(model)).all()
    assert split.digest() != split.first(4).digest()
