"""Training, plain or against projected gradient descent (PGD), the same for the same seed.

Adversarial training minimises the loss at  x' = argmax over |x' − x|_∞ ≤ ε, x' in [0, 1]  of
loss(x', y), where the argmax is what a few steps of signed gradient ascent find.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from training.datasets import Dataset

Model = nn.Sequential


@dataclass(frozen=True)
class Attack:
    """Signed gradient ascent on a loss from a random start, `steps` steps of `2.5 ε / steps`."""

    epsilon: float
    steps: int = 7

    def __call__(self, model: Model, x: Tensor, y: Tensor, random: torch.Generator) -> Tensor:
        """Images `[N, C, H, W]` within ε of `x` and in [0, 1], on which the loss is large."""
        lower, upper = (x - self.epsilon).clamp(min=0), (x + self.epsilon).clamp(max=1)
        step = 2.5 * self.epsilon / max(self.steps, 1)
        adversarial = lower + torch.rand(x.shape, generator=random) * (upper - lower)
        for _ in range(self.steps):
            adversarial.requires_grad_(True)
            loss = cross_entropy(model(adversarial), y, reduction="sum")
            (gradient,) = torch.autograd.grad(loss, adversarial)
            ascended = adversarial.detach() + step * gradient.sign()
            adversarial = torch.minimum(torch.maximum(ascended, lower), upper)
        return adversarial.detach()


@dataclass(frozen=True)
class Training:
    """How to train; without an attack, plainly. The learning rate falls along a cosine to 0."""

    epochs: int = 100
    batch: int = 64
    learning_rate: float = 5e-3
    weight_decay: float = 1e-4
    attack: Attack | None = None
    seed: int = 0


def train(build: Callable[[], Model], dataset: Dataset, training: Training) -> Model:
    """A model as `build` makes it, trained; weights are a function of the arguments alone."""
    model = _initialise(build, training.seed)
    random = torch.Generator().manual_seed(training.seed)
    optimiser = torch.optim.AdamW(
        model.parameters(), lr=training.learning_rate, weight_decay=training.weight_decay
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, training.epochs)
    for _ in range(training.epochs):
        order = torch.randperm(len(dataset.train_labels), generator=random)
        for start in range(0, len(order), training.batch):
            rows = order[start : start + training.batch]
            x, y = dataset.train_images[rows], dataset.train_labels[rows]
            if training.attack is not None:
                x = training.attack(model, x, y, random)
            optimiser.zero_grad()
            cross_entropy(model(x), y).backward()  # type: ignore[no-untyped-call]  # torch's own
            optimiser.step()
        schedule.step()
    return model.eval().requires_grad_(False)


def accuracy(model: Model, dataset: Dataset, attack: Attack | None = None, seed: int = 0) -> float:
    """Share of test images classified correctly, all of them attacked first if asked."""
    x, y = dataset.test_images, dataset.test_labels
    if attack is not None:
        x = attack(model, x, y, torch.Generator().manual_seed(seed))
    with torch.no_grad():
        return float((model(x).argmax(dim=1) == y).double().mean())


def _initialise(build: Callable[[], Model], seed: int) -> Model:
    """`torch.nn` draws initial weights from the global generator only: borrow it, give it back."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build().train()
