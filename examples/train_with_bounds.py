"""Train with certified bounds: raise the worst margin of a class over a ball by steps on the weights."""

import torch

import anybound

network = anybound.load(anybound.bundled("digits_dense.onnx"))
prop = anybound.read_vnnlib(anybound.bundled("digits_dense_image0_eps0.05.vnnlib"))
ball = prop.clauses[0].input_set
rows = torch.cat([torch.tensor(clause.matrix) for clause in prop.clauses])  # class 0 less another

for step in range(5):
    found = anybound.bounds(network, ball, rows, method=anybound.Slopes(iterations=5))
    weights = {name: w.requires_grad_() for name, w in anybound.weights(network).items()}
    lower, _ = anybound.differentiable_bounds(
        anybound.with_weights(network, weights), ball, rows, found, recompute=True
    )
    (-lower.min()).backward()
    stepped = {n: (w - 3e-4 * w.grad).detach() for n, w in weights.items() if w.grad is not None}
    network = anybound.with_weights(network, stepped)
    print(
        f"step {step}: the smallest of {len(rows)} margins is at least {float(found.lower.min()):.4f}"
    )
