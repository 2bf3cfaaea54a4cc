"""How records look to people: plain functions from a record to lines and tables.

Names come from files and are made printable; tables have no frames, so that they survive a pipe.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from anybound.cli.text import plural, printable

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

__all__ = [
    "bench_view",
    "bounds_view",
    "demo_view",
    "generation_view",
    "methods_view",
    "network_view",
    "property_view",
    "radius_view",
    "training_view",
]

# Records are plain JSON data, whose types the type checker cannot follow by key.
Data = Any
_SHOWN_NODES = 40


def network_view(record: Data, verbose: bool = False) -> "list[RenderableType]":
    """A network: its head, then its layers, or what is in it and why it cannot be read."""
    parts: list[RenderableType] = [_head("network", record)]
    parts += _facts(_network_facts(record))
    if record["layers"]:
        parts += ["", _layer_table(record["layers"])]
    if record["notes"]:
        parts += ["", *(f"note: {printable(note)}" for note in record["notes"])]
    if not record["supported"]:
        parts += ["", *_unsupported(record["unsupported"])]
    if verbose or not record["supported"]:
        parts += ["", _node_table(record["nodes"], None if verbose else _SHOWN_NODES)]
    if "ambiguous" in record:
        parts += ["", *_facts(_property_facts(record["property"])), ""]
        parts += _ambiguous_table(record["ambiguous"])
    return parts


def property_view(record: Data) -> "list[RenderableType]":
    """A property: its counts and widths."""
    parts: list[RenderableType] = [_head("property", record)]
    if not record["supported"]:
        return [*parts, "", *_unsupported(record["unsupported"])]
    return [*parts, *_facts(_property_facts(record))]


def demo_view(record: Data) -> "list[RenderableType]":
    """The network and property of the demo, the bounds of every class, and the verdict."""
    network, worst = record["network"], min(clause["lower"] for clause in record["clauses"])
    parts = [*network_view(network), "", "certified bounds of the outputs:", _class_table(record)]
    clauses = plural(len(record["clauses"]), "clause")
    parts += ["", f"{record['verdict']}: smallest margin of {clauses} is at least {worst:.6g}"]
    parts.append(f"  bounded in {record['seconds']:.2f} s")
    parts += [f"  picture: {printable(picture)}" for picture in record["pictures"]]
    return parts


def bounds_view(record: Data) -> "list[RenderableType]":
    """One line per function, then what it took."""
    pairs = zip(record["lower"], record["upper"], strict=True)
    rows = [(str(i), f"{low:.6g}", f"{high:.6g}") for i, (low, high) in enumerate(pairs)]
    columns = ("row", "lower", "upper")
    ambiguous, neurons = sum(record["ambiguous"]), sum(record["neurons"])
    return [
        _table(columns, rows, columns),
        "",
        f"{record['method']}: {plural(record['iterations'], 'iteration')}, {record['stopped']}",
        f"{ambiguous:,} of {plural(neurons, 'hidden neuron')} ambiguous; {record['seconds']:.2f} s,"
        f" of which {record['seconds_intermediate']:.2f} s on hidden layers",
    ]


def bench_view(record: Data) -> "list[RenderableType]":
    """A line per benchmark, and one for all if there are several."""
    names = ("holds", "violated", "unknown", "timeout", "failed", "contradicted", "certified")
    rows = [_bench_row(row["benchmark"], [row], names) for row in record["benchmarks"]]
    if len(rows) > 1:
        rows.append(_bench_row("all", record["benchmarks"], names))
    columns = ("benchmark", "instances", *names, "seconds", "CPU s")
    return [_table(columns, rows, columns[1:])]


def _bench_row(label: str, rows: Data, names: Sequence[str]) -> tuple[str, ...]:
    counts = {name: sum(row.get(name, 0) for row in rows) for name in names}
    verdicts = sum(counts[name] for name in names[:4])
    seconds, cpu = (sum(row[name] for row in rows) for name in ("seconds", "cpu_seconds"))
    return (label, str(verdicts), *map(str, counts.values()), f"{seconds:.1f}", f"{cpu:.1f}")


def radius_view(record: Data) -> "list[RenderableType]":
    """The bracket, and how it came to be."""
    from anybound.cli.verdicts import bracket

    rows = [
        (f"{step['epsilon']:.6g}", step["verdict"], f"{step['seconds']:.2f}")
        for step in record["steps"]
    ]
    columns = ("radius", "verdict", "seconds")
    table: list[RenderableType] = [_table(columns, rows, ("radius", "seconds")), ""] if rows else []
    return [*table, bracket(record)]


def generation_view(record: Data) -> "list[RenderableType]":
    """How many properties there are, and what is known of them."""
    known = record["expected"]
    return [
        f"wrote {plural(record['properties'], 'property', 'properties')} of "
        f"{plural(record['images'], 'image')} to {printable(record['folder'])} "
        f"({record['misclassified']} misclassified), {record['seconds']:.1f} s",
        f"proved by bounds {known['unsat']}, broken by the attack {known['sat']}, open {known['unknown']}",
    ]


def training_view(record: Data) -> "list[RenderableType]":
    """What was trained, and how accurate it is."""
    trained = record["training"]
    if trained == "pgd":
        trained += f" of {record['steps']} steps, ε = {record['epsilon']:.4g}"
    under = f"ε = {record['test_epsilon']:.4g}, {record['test_steps']} steps"
    tests = plural(record["test_images"], "test image")
    return [
        f"wrote {printable(record['output'])}: {record['model']}, "
        f"{plural(record['parameters'], 'parameter')}, reads {record['input']}",
        f"trained on {plural(record['images'], 'image')} of {record['dataset']}, {trained}, "
        f"{plural(record['epochs'], 'epoch')}, seed {record['seed']}, {record['seconds']:.1f} s",
        f"accuracy {record['accuracy']:.1%} of {tests}; {record['accuracy_under_pgd']:.1%} under a "
        f"PGD attack ({under})",
    ]


def methods_view(record: Data) -> "list[RenderableType]":
    """Each plug-in's name, what it is, and its parameters, ready to be copied."""
    parts: list[RenderableType] = []
    for kind, entries in record.items():
        parts += ["", f"{kind.replace('_', ' ')}:"] if parts else [f"{kind.replace('_', ' ')}:"]
        for entry in entries:
            given = ", ".join(f"{p['name']}={p['default']}" for p in entry["parameters"])
            parts += [f"  {entry['name']}({given})" if given else f"  {entry['name']}"]
            parts += [f"      {entry['summary']}"]
    return parts


def _layer_table(layers: Data) -> "Table":
    """One line per layer of the normal form."""
    rows = (
        (
            str(layer["index"]),
            layer["name"] or ("input" if layer["index"] == 0 else ""),
            " + ".join(layer["maps"]),
            layer["activation"] or "",
            _shape(layer["shape"]),
            f"{layer['neurons']:,}",
            f"{layer['parameters']:,}" if layer["maps"] else "",
            ", ".join(map(str, layer["sources"])),
        )
        for layer in layers
    )
    columns = ("layer", "name", "maps", "activation", "shape", "neurons", "parameters", "from")
    return _table(columns, rows, right=("layer", "neurons", "parameters"))


def _ambiguous_table(record: Data) -> "list[RenderableType]":
    """Ambiguous neurons per layer."""
    used, count = record["input_sets_used"], record["input_sets"]
    of = "" if count == 1 else f", mean over {used:,} of {plural(count, 'input set')}"
    rows = [
        (str(layer["layer"]), f"{layer['neurons']:,}", f"{layer['ambiguous']:,g}", _share(layer))
        for layer in record["layers"]
    ]
    rows.append(("all", f"{record['neurons']:,}", f"{record['ambiguous']:,g}", _share(record)))
    columns = ("layer", "neurons", "ambiguous", "share")
    return [f"ambiguous neurons by {record['bounds']} bounds{of}:", _table(columns, rows, columns)]


def _class_table(record: Data) -> "Table":
    loose = record["interval"]
    numbers = zip(
        record["outputs"],
        loose["lower"],
        loose["upper"],
        record["lower"],
        record["upper"],
        strict=True,
    )
    rows = ((str(i), *(f"{number:.3f}" for number in row)) for i, row in enumerate(numbers))
    columns = ("class", "at the centre", "interval ≥", "interval ≤", "dual ≥", "dual ≤")
    return _table(columns, rows, columns)


def _network_facts(record: Data) -> Iterator[tuple[str, str]]:
    yield "inputs", "; ".join(map(_tensor, record["inputs"]))
    yield "outputs", "; ".join(map(_tensor, record["outputs"]))
    yield "made by", f"{record['producer'] or 'unknown'}, opset {record['opset']}"
    yield "weights", f"{record['parameters']:,} {record['dtype']}"
    operators = (f"{count} {name}" for name, count in record["operators"].items())
    yield "operators", ", ".join(operators)
    if record["supported"]:
        layers = plural(len(record["layers"]) - 1, "layer")
        yield "normal form", f"{layers}, {plural(record['neurons'], 'hidden neuron')}"


def _property_facts(record: Data) -> Iterator[tuple[str, str]]:
    yield "inputs", f"{record['inputs']:,} ({record['fixed_inputs']:,} fixed)"
    yield "outputs", f"{record['outputs']:,}"
    rows = " or ".join(map(str, record["half_spaces"]))
    yield "unsafe set", f"{plural(record['clauses'], 'clause')} (half-spaces in each: {rows})"
    yield "input sets", f"{record['input_sets']:,}"
    yield "widths", f"{record['narrowest']:.6g} to {record['widest']:.6g}"


def _unsupported(entries: Data) -> Iterator[str]:
    yield f"not supported ({len(entries)}):"
    for entry in entries:
        yield f"  {printable(entry['reason'])}"
    advice = {entry["advice"] for entry in entries if entry.get("advice")}
    yield from (f"what to do: {line}" for line in sorted(advice))


def _node_table(nodes: Data, limit: int | None) -> "Table":
    rows = [
        (node["operator"], node["name"], "; ".join(_shape(t["shape"]) for t in node["outputs"]))
        for node in nodes[:limit]
    ]
    if len(nodes) > len(rows):
        rows.append(("…", f"{len(nodes) - len(rows):,} more (--verbose shows all)", ""))
    return _table(("operator", "node", "shape"), rows)


def _head(kind: str, record: Data) -> "RenderableType":
    from rich.text import Text

    return Text.assemble(kind, " ", (printable(record["file"]), "bold"))


def _facts(facts: Iterable[tuple[str, str]]) -> Iterator[str]:
    return (f"  {name:<12} {printable(value)}" for name, value in facts)


def _table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[str] = ()
) -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    return table


def _tensor(tensor: Data) -> str:
    return f"{tensor['name']} {tensor['dtype']} {_shape(tensor['shape'])}".strip()


def _shape(shape: Data) -> str:
    if shape is None:
        return "?"
    return "[" + ", ".join("?" if extent is None else str(extent) for extent in shape) + "]"


def _share(layer: Data) -> str:
    return f"{100 * layer['ambiguous'] / max(1, layer['neurons']):.1f} %"
