"""A method with compiled steps computes what the method does, up to rounding.

Graphs are captured as for any backend and run without generating code, which would take a minute."""

from __future__ import annotations

import pytest
import torch
from random_networks import case

from anybound.bound.method import maximise
from anybound.bound.methods.compiled import Compiled
from anybound.registry import METHODS


@pytest.mark.parametrize(
    "text", ["slopes(iterations=5)", "supergradient(iterations=5)", "proximal(iterations=6)"]
)
def test_compiled_steps_are_the_steps(text: str) -> None:
    torch.compiler.reset()
    plain, compiled = METHODS.parse(text), METHODS.parse(f"compiled({text}, backend='eager')")
    assert compiled == Compiled(plain, "eager")
    given = case(5, activations=("relu", "sigmoid"), domains=("box",), subproblems=2)
    expected, found = maximise(given.dual, plain), maximise(given.dual, compiled)
    assert found.iterations == expected.iterations
    assert torch.allclose(found.value, expected.value, rtol=1e-9)
    assert torch.allclose(found.rho.data, expected.rho.data, rtol=1e-6, atol=1e-9)
    assert bool((given.dual.rigorous(found.rho) <= given.sampled_minimum(200)).all())


def test_steps_are_one_graph() -> None:
    """Nothing in a step makes the compiler give up and go back to Python, once the hull has what it keeps."""
    dual = case(3, activations=("relu", "tanh"), domains=("box",), subproblems=2).dual
    for text in ("slopes", "supergradient", "proximal"):
        torch.compiler.reset()
        method = METHODS.parse(text)
        with torch.inference_mode():
            state = method.step(dual, method.init(dual, None))
            whole = torch.compile(method.step, backend="eager", fullgraph=True)
            whole(dual, state)
