"""Bound a network that you trained in PyTorch, at any time and in one line."""

import torch
from torch import nn

import anybound

torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(1, 4, kernel_size=3, stride=2, padding=1),
    nn.ReLU(),
    nn.Flatten(),
    nn.Linear(4 * 4 * 4, 3),
)
image = torch.rand(1, 1, 8, 8)

network = anybound.from_torch(model, image)
region = anybound.Box.ball(image[None, None].double(), 0.05, clip=(0, 1))

found = anybound.bounds(network, region)
for k, (low, high) in enumerate(zip(found.lower, found.upper, strict=True)):
    print(f"output {k} stays within [{low:+.4f}, {high:+.4f}]")

# Whatever inputs are drawn from the region, outputs stay inside.
samples = region.sample(1000, torch.Generator().manual_seed(0))[0].float().squeeze(1)
outputs = model(samples).double()
assert (outputs >= found.lower - 1e-5).all()
assert (outputs <= found.upper + 1e-5).all()

# Go on from where the last call stopped: bounds never get worse.
better = anybound.bounds(network, region, method="slopes(iterations=100)", warm=found)
gained = (found.upper - found.lower).max() - (better.upper - better.lower).max()
print(f"after more steps the widest interval is narrower by {gained:.2e}")
