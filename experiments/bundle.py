"""Train the four networks that come with the package, and record how accurate they are.

    python experiments/bundle.py src/anybound/data/networks

Takes about a minute. With the versions of constraints.txt, and on a CPU with the same vector
instructions, the files come out bit for bit as they are bundled.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import torch

from train import Recipe, make
from training.fit import Attack, Training

RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        "digits_dense": Recipe("digits", "dense", Training(attack=Attack(0.1))),
        "digits_conv": Recipe("digits", "conv", Training(attack=Attack(0.1))),
        "digits_residual": Recipe("digits", "residual", Training()),
        "digits_sigmoid": Recipe("digits", "sigmoid", Training(weight_decay=1e-2)),
    }
)


def main(arguments: list[str]) -> int:
    """Write the networks and networks.json into the folder given."""
    if len(arguments) != 1:
        print("usage: python experiments/bundle.py FOLDER", file=sys.stderr)
        return 2
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)  # sums are taken in one order, whatever the machine
    records = [make(recipe, folder / f"{name}.onnx") for name, recipe in RECIPES.items()]
    (folder / "networks.json").write_text(json.dumps(records, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
