"""Decide whether a classifier can be fooled around an image: a proof, a counterexample, or an honest 'unknown'."""

from importlib.resources import files

import numpy as np

import anybound

folder = files("anybound") / "data"
network = anybound.load(str(folder / "networks" / "digits_dense.onnx"))
prop = anybound.read_vnnlib(str(folder / "properties" / "digits_dense_image0_eps0.05.vnnlib"))

outcome = anybound.verify(network, prop, timeout=60)
print(outcome.verdict.value, f"after {outcome.subproblems} sub-problems")
for clause in outcome.clauses[:3]:
    print(f"  clause {clause.clause}: the margin is at least {clause.lower:.3f}")

# The same from Python, with a radius at which the answer is another one.
center = (prop.clauses[0].lower + prop.clauses[0].upper) / 2
label = int(np.flatnonzero(prop.clauses[0].matrix[0] > 0)[0])
wide = anybound.robust(network, center, label=label, epsilon=0.5, clip=(0, 1))
outcome = anybound.verify(network, wide, timeout=60)
print(outcome.verdict.value)
if outcome.witness is not None:
    print(
        "  an input that is classified as",
        int(outcome.witness.output.argmax()),
        "instead of",
        label,
    )
