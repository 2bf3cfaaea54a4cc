"""The networks and properties that come with the package are what they claim to be."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

import make_properties
from anybound import read_vnnlib
from anybound.training.architectures import ARCHITECTURES, Residual
from anybound.training.datasets.dataset import Dataset
from anybound.training.datasets.digits import digits
from anybound.training.fit import Training, accuracy, train
from anybound.training.onnx_export import load_weights, to_onnx
from anybound.training.pgd import Pgd
from make_properties import SPECS, Spec

DATA = Path(__file__).parents[2] / "src" / "anybound" / "data"
NETWORKS = ["digits_conv", "digits_dense", "digits_residual", "digits_sigmoid"]


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return digits()


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def run(network: Path, images: torch.Tensor) -> np.ndarray:
    """Outputs `[N, classes]` by onnxruntime, one image at a time as the networks are of batch 1."""
    session = onnxruntime.InferenceSession(network, providers=["CPUExecutionProvider"])
    outputs = [session.run(None, {"input": image[None].numpy()})[0] for image in images]
    return np.concatenate(outputs)


def test_the_four_networks_are_there_and_small() -> None:
    files = sorted((DATA / "networks").glob("*.onnx"))
    assert [path.stem for path in files] == NETWORKS
    assert all(path.stat().st_size < 300_000 for path in files)


@pytest.mark.parametrize("name", NETWORKS)
def test_recorded_accuracy_is_what_onnxruntime_finds(name: str, dataset: Dataset) -> None:
    records = json.loads((DATA / "networks" / "networks.json").read_text())
    record = next(record for record in records if record["network"] == f"{name}.onnx")
    outputs = run(DATA / "networks" / f"{name}.onnx", dataset.test.pixels)
    found = (outputs.argmax(axis=1) == dataset.test.labels.numpy()).mean()
    assert found == pytest.approx(record["accuracy"], abs=5e-5)
    assert found > 0.93


@pytest.mark.parametrize("name", ["digits_conv", "digits_dense"])
def test_adversarial_training_brought_robustness(name: str, dataset: Dataset) -> None:
    """The plainly trained residual network falls to the attack that these two withstand."""
    attack = Pgd(epsilon=0.1, steps=20)
    robust, plain = bundled(name.removeprefix("digits_")), bundled("residual")
    assert accuracy(robust, dataset.test, attack) > 0.75
    assert accuracy(plain, dataset.test, attack) < 0.4


def test_properties_are_as_their_specifications_say(dataset: Dataset) -> None:
    written = {path.name: path.read_text() for path in (DATA / "properties").glob("*.vnnlib")}
    assert written == {spec.name: make_properties.render(spec, dataset) for spec in SPECS}


def test_lists_of_instances_agree_and_name_existing_files() -> None:
    with (DATA / "expected.csv").open() as file:
        expected = [tuple(row.values()) for row in csv.DictReader(file)]
    with (DATA / "instances.csv").open() as file:
        instances = [tuple(row) for row in csv.reader(file)]
    assert [row[:2] for row in expected] == [row[:2] for row in instances]
    assert [row[2] for row in expected] == [spec.expected for spec in SPECS]
    assert all((DATA / path).is_file() for row in instances for path in row[:2])
    assert all(float(row[2]) > 0 for row in instances)


@pytest.mark.parametrize("spec", [s for s in SPECS if s.expected == "sat"], ids=lambda s: s.name)
def test_violated_properties_have_a_witness(spec: Spec, dataset: Dataset) -> None:
    network = DATA / "networks" / f"digits_{spec.network}.onnx"
    witness = make_properties.find_witness(spec, dataset, network)
    assert witness is not None
    output = run(network, torch.from_numpy(witness))[0].astype(float)
    center = dataset.test.pixels[spec.images[0]].numpy().astype(float)
    assert np.abs(witness[0].astype(float) - center).max() <= float(spec.epsilon)
    assert 0 <= witness.min() <= witness.max() <= 1
    assert output.argmax() != dataset.test.labels[spec.images[0]]
    written = read_vnnlib(DATA / "properties" / spec.name)
    assert written.violated_by(witness.ravel(), output)


@pytest.mark.parametrize("spec", [s for s in SPECS if s.expected == "unsat"], ids=lambda s: s.name)
def test_properties_that_hold_resist_the_attack(spec: Spec, dataset: Dataset) -> None:
    network = DATA / "networks" / f"digits_{spec.network}.onnx"
    assert make_properties.find_witness(spec, dataset, network) is None


def test_witnesses_are_judged_without_tolerance(dataset: Dataset) -> None:
    spec = SPECS[0]
    label = spec.label(dataset)
    tie, safe = np.zeros(10, np.float32), np.zeros(10, np.float32)
    safe[label] = 1e-6
    center = dataset.test.pixels[spec.images[0]].numpy()[None]
    outside = center.copy()
    outside[0, 0, 0, 0] = np.nextafter(np.float32(0), np.float32(-1))
    assert make_properties.is_witness(spec, dataset, center, tie)
    assert not make_properties.is_witness(spec, dataset, center, safe)
    assert not make_properties.is_witness(spec, dataset, outside, tie)


@pytest.mark.parametrize("attack", [None, Pgd(0.1, steps=2)], ids=["plain", "pgd"])
def test_training_is_a_function_of_its_recipe(attack: Pgd | None, dataset: Dataset) -> None:
    def weights(seed: int) -> torch.Tensor:
        torch.manual_seed(np.random.default_rng().integers(2**31))  # must not matter
        model = train(
            lambda: ARCHITECTURES["conv"](dataset.shape, 10),
            dataset.train,
            Training(epochs=1, attack=attack, seed=seed),
        )
        return torch.cat([weight.flatten() for weight in model.parameters()])

    assert torch.equal(weights(seed=0), weights(seed=0))
    assert not torch.equal(weights(seed=0), weights(seed=1))


def test_training_leaves_the_global_generator_alone(dataset: Dataset) -> None:
    state = torch.get_rng_state()
    train(lambda: ARCHITECTURES["dense"](dataset.shape, 10), dataset.train, Training(epochs=1))
    assert torch.equal(torch.get_rng_state(), state)


def test_attack_stays_in_the_ball_and_in_range_and_raises_the_loss(dataset: Dataset) -> None:
    model, x, y = bundled("residual"), dataset.test.pixels, dataset.test.labels
    attacked = Pgd(0.1)(model, x, y, torch.Generator().manual_seed(0))
    assert (attacked - x).abs().max() <= 0.1 + 1e-6
    assert attacked.min() >= 0
    assert attacked.max() <= 1
    loss = nn.functional.cross_entropy
    assert loss(model(attacked), y) > 2 * loss(model(x), y)


@pytest.mark.parametrize("name", sorted(ARCHITECTURES))
@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 9, 7)])
def test_exported_graph_computes_what_the_module_does(
    name: str, shape: tuple[int, int, int], tmp_path: Path
) -> None:
    model = ARCHITECTURES[name](shape, 5).eval()
    path = tmp_path / "network.onnx"
    onnx.save(to_onnx(model, shape, 5, name), path)
    images = torch.rand(3, *shape, generator=torch.Generator().manual_seed(0))
    again = ARCHITECTURES[name](shape, 5)
    load_weights(again, onnx.load(path))
    with torch.no_grad():
        np.testing.assert_allclose(run(path, images), model(images).numpy(), rtol=1e-4, atol=1e-5)
        assert torch.equal(again(images), model(images))


def test_a_module_that_cannot_be_exported_is_named() -> None:
    with pytest.raises(ValueError, match=r"GELU.*Conv2d"):
        to_onnx(nn.Sequential(nn.GELU()), (1, 8, 8), 10, "gelu")


def bundled(model: str) -> nn.Sequential:
    """A bundled network as a module again."""
    module = ARCHITECTURES[model]((1, 8, 8), 10)
    load_weights(module, onnx.load(DATA / "networks" / f"digits_{model}.onnx"))
    assert not isinstance(module[-1], Residual)
    return module.eval().requires_grad_(False)
