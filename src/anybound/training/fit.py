"""Training, plain or against projected gradient descent (PGD), the same for the same seed.

Adversarial training minimises the loss at  x' = argmax over |x' − x|_∞ ≤ ε, x' in [0, 1]  of
loss(x', y), where the argmax is what steps of signed gradient ascent find.

All that decides how a training goes on is in its `state`, arrays by name: a training that is given
the state of another one, of the same recipe and images, ends with the very same weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from anybound.errors import InvalidConfig, InvalidInput
from anybound.training.architectures import Model
from anybound.training.datasets.dataset import Split
from anybound.training.optimisers import AdamW, Optimiser
from anybound.training.pgd import Pgd

__all__ = ["Fit", "Progress", "State", "Training", "accuracy", "train"]

State = Mapping[str, NDArray[np.generic]]
Watch = Callable[["Progress"], None]
_TEST_BATCH = 512


@dataclass(frozen=True)
class Training:
    """How to train; without an attack, plainly. The learning rate falls along a cosine to 0."""

    epochs: int = 100
    batch: int = 64
    optimiser: Optimiser = AdamW()
    attack: Pgd | None = None
    seed: int = 0


@dataclass(frozen=True)
class Progress:
    """Where a training or a test is; `loss` and `accuracy` are means since the epoch began."""

    phase: str
    epoch: int
    epochs: int
    batch: int
    batches: int
    loss: float
    accuracy: float


class Fit:
    """A training that goes on step by step."""

    def __init__(self, build: Callable[[], Model], split: Split, training: Training) -> None:
        self.split, self.training = split, training
        self.model = _initialised(build, training.seed)
        self.random = torch.Generator().manual_seed(training.seed)
        self.optimiser = training.optimiser.of(self.model.parameters())
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimiser, training.epochs)
        self.epoch = 0  # epochs that are complete
        self.position = 0  # images seen in this one
        self.order = torch.empty(0, dtype=torch.int64)
        self.sums = np.zeros(2)  # of the loss and of right answers, in this epoch
        self.history = np.zeros((0, 2))  # the mean loss and the accuracy of every complete epoch

    @property
    def is_done(self) -> bool:
        """Whether all epochs are complete."""
        return self.epoch >= self.training.epochs

    def step(self) -> Progress:
        """Train on one batch."""
        if self.position == 0:
            self.order = torch.randperm(len(self.split), generator=self.random)
            self.sums = np.zeros(2)
        end = min(self.position + self.training.batch, len(self.order))
        rows = self.order[self.position : end]
        x, y = self.split.images(rows), self.split.labels[rows]
        if self.training.attack is not None:
            x = self.training.attack(self.model, x, y, self.random)
        self.optimiser.zero_grad()
        logits = self.model(x)
        loss = cross_entropy(logits, y)
        if not bool(loss.isfinite()):
            raise InvalidConfig(
                f"the loss is {float(loss.detach()):g} in epoch {self.epoch + 1}: the training diverges; choose a "
                "smaller learning rate"
            )
        loss.backward()  # type: ignore[no-untyped-call]  # torch's own
        self.optimiser.step()
        right = (logits.argmax(dim=1) == y).sum()
        self.sums += float(loss.detach()) * len(rows), float(right)
        self.position += len(rows)
        progress = self._progress()
        if self.position == len(self.order):
            self._end_epoch()
        return progress

    def _end_epoch(self) -> None:
        self.schedule.step()
        self.history = np.concatenate([self.history, self.sums[None] / self.position])
        self.epoch, self.position = self.epoch + 1, 0

    def _progress(self) -> Progress:
        size = self.training.batch
        loss, right = (self.sums / self.position).tolist()
        batch, batches = -(-self.position // size), -(-len(self.split) // size)
        return Progress(
            "training", self.epoch + 1, self.training.epochs, batch, batches, loss, right
        )

    def state(self) -> dict[str, NDArray[np.generic]]:
        """Everything that changes, as arrays."""
        arrays = {
            "epoch": np.array(self.epoch),
            "position": np.array(self.position),
            "order": self.order.numpy(),
            "sums": self.sums,
            "history": self.history,
            "random": self.random.get_state().numpy(),
            "rate": np.array(self.optimiser.param_groups[0]["lr"]),
        }
        for i, parameter in enumerate(self.model.parameters()):
            arrays[f"weight.{i}"] = parameter.detach().numpy()
            for name, value in self.optimiser.state.get(parameter, {}).items():
                if isinstance(value, Tensor):
                    arrays[f"optimiser.{i}.{name}"] = value.numpy()
        return arrays

    def restore(self, state: State) -> None:
        """Go on where another training of the same recipe was when it told its state."""
        with torch.no_grad():
            for i, parameter in enumerate(self.model.parameters()):
                parameter.copy_(_tensor(state, f"weight.{i}", tuple(parameter.shape)))
                prefix = f"optimiser.{i}."
                names = [name for name in state if name.startswith(prefix)]
                moments = {name.removeprefix(prefix): _tensor(state, name) for name in names}
                if moments:
                    self.optimiser.state[parameter] = moments
        self.epoch, self.position = int(state["epoch"]), int(state["position"])
        self.order = _tensor(state, "order")
        self.sums, self.history = (state[name].astype(np.float64) for name in ("sums", "history"))
        self.random.set_state(_tensor(state, "random"))
        rate = float(state["rate"])
        self.optimiser.param_groups[0]["lr"] = rate
        self.schedule.load_state_dict(
            {"last_epoch": self.epoch, "_step_count": self.epoch + 1, "_last_lr": [rate]}
        )

    def finished(self) -> Model:
        """The model, to be used and no longer trained."""
        return self.model.eval().requires_grad_(False)


def train(build: Callable[[], Model], split: Split, training: Training) -> Model:
    """A model as `build` makes it, trained; weights are a function of the arguments alone."""
    fit = Fit(build, split, training)
    while not fit.is_done:
        fit.step()
    return fit.finished()


def accuracy(
    model: Model, split: Split, attack: Pgd | None = None, seed: int = 0, watch: Watch | None = None
) -> float:
    """Share of images classified correctly, all of them attacked first if asked."""
    random, right, seen = torch.Generator().manual_seed(seed), 0, 0
    batches = split.batches(_TEST_BATCH)
    for number, rows in enumerate(batches, 1):
        x, y = split.images(rows), split.labels[rows]
        if attack is not None:
            x = attack(model, x, y, random)
        with torch.no_grad():
            right += int((model(x).argmax(dim=1) == y).sum())
        seen += len(y)
        if watch is not None:
            phase = "testing" if attack is None else "attacking"
            watch(Progress(phase, 1, 1, number, len(batches), 0.0, right / seen))
    return right / seen


def _initialised(build: Callable[[], Model], seed: int) -> Model:
    """`torch.nn` draws initial weights from the global generator only: borrow it, give it back."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build().train()


def _tensor(state: State, name: str, shape: tuple[int, ...] | None = None) -> Tensor:
    array = state[name]
    if shape is not None and array.shape != shape:
        raise InvalidInput(f"{name} is of shape {array.shape}; expected {shape}")
    return torch.from_numpy(np.array(array))
