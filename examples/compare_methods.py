"""Bound one margin with every method of the paper, from the same intermediate bounds, and compare."""

from importlib.resources import files

import anybound

folder = files("anybound") / "data"
network = anybound.load(str(folder / "networks" / "digits_conv.onnx"))
prop = anybound.read_vnnlib(str(folder / "properties" / "digits_conv_image4_eps0.05.vnnlib"))
clause = prop.clauses[0]
box = (clause.lower, clause.upper)

first = anybound.bounds(network, box, rows=clause.matrix, method="interval", intermediate="wk")
for method in (
    "interval",
    "wk",
    "crown",
    "dsg(iterations=100)",
    "dec_dsg(iterations=100)",
    "supergradient(iterations=100)",
    "proximal(iterations=100)",
    "slopes(iterations=10)",
    "then(slopes(iterations=10), supergradient(iterations=50))",
):
    found = anybound.bounds(
        network, box, rows=clause.matrix, method=method, intermediate=first.intermediate
    )
    print(f"{method:60} {float(found.lower[0]):9.4f}   {found.seconds * 1e3:7.1f} ms")
