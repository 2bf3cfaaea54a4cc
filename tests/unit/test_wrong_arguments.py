"""What is easily mistaken in Python is answered in a line that says what to give instead."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import anybound
from anybound.errors import InvalidInput

PATH = str(anybound.bundled("digits_dense.onnx"))
SET = anybound.ball([0.0] * 64, 0.1)
ANYTHING: Any = anybound  # the type checker would tell before

MISTAKES = {
    "a path for a network": (lambda: ANYTHING.bounds(PATH, SET), "anybound.load"),
    "a module for a network": (lambda: ANYTHING.bounds(torch.nn.ReLU(), SET), "from_torch"),
    "an input set for a property": (lambda: ANYTHING.verify(PATH, SET), "anybound.robust"),
    "an input set to attack": (lambda: ANYTHING.attack(PATH, SET), "anybound.robust"),
    "no module": (lambda: ANYTHING.from_torch(PATH, torch.zeros(1)), "torch.nn.Module"),
    "no tensor": (lambda: ANYTHING.from_torch(torch.nn.ReLU(), [0.0]), "a tensor"),
}


@pytest.mark.parametrize(("call", "advice"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_answered(call: Callable[[], object], advice: str) -> None:
    with pytest.raises(InvalidInput, match=advice) as refused:
        call()
    assert "\n" not in str(refused.value)
