"""Train the four networks that come with the package, and record how accurate they are.

    python experiments/train.py src/anybound/data/networks

Takes about a minute. With the versions of constraints.txt, and on a CPU with the same vector
instructions, the files come out bit for bit as they are bundled. Other networks: `anybound train`.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType

import torch

from anybound.training.datasets.digits import digits
from anybound.training.fit import Training
from anybound.training.optimisers import AdamW
from anybound.training.pgd import Pgd
from anybound.training.recipe import Recipe, make

_TEST = Pgd(0.1, steps=40)  # a stronger attack than the one trained against

RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        "digits_dense": Recipe("dense", Training(attack=Pgd(0.1)), _TEST),
        "digits_conv": Recipe("conv", Training(attack=Pgd(0.1)), _TEST),
        "digits_residual": Recipe("residual", Training(), _TEST),
        "digits_sigmoid": Recipe("sigmoid", Training(optimiser=AdamW(weight_decay=1e-2)), _TEST),
    }
)


def main(arguments: list[str]) -> int:
    """Write the networks and networks.json into the folder given."""
    if len(arguments) != 1:
        print("usage: python experiments/train.py FOLDER", file=sys.stderr)
        return 2
    folder, dataset = Path(arguments[0]), digits()
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)  # sums are taken in one order, whatever the machine
    records = []
    with TemporaryDirectory() as scratch:
        for name, recipe in RECIPES.items():
            made = Path(scratch) / f"{name}.onnx"
            records.append(make(recipe, dataset, made))
            (folder / made.name).write_bytes(made.read_bytes())
    (folder / "networks.json").write_text(json.dumps(records, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
