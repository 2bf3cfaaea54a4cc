"""Complete verification: every row decides every property, one process each, one thread, within a limit of time.

The paper's rows are BaBSR with its bounding methods and settings (`paper(…)`, see `anybound methods`), and MIPplanet;
beside them are this project's defaults, BaBSR with methods of a user's own, and searches of a user's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from anybound.benching import Instance, Run, check_settings
from anybound.errors import InvalidConfig
from anybound.experiments.named import Named, distinct
from anybound.experiments.properties import PropertySource
from anybound.io.records import Record, RecordFile

__all__ = [
    "ELSEWHERE",
    "OURS",
    "Complete",
    "CompleteRow",
    "chosen",
    "own_methods",
    "own_searches",
    "paper_rows",
]

OURS = "anybound"
ELSEWHERE = "recorded elsewhere"
BATCH: Mapping[str, int] = {"base": 300, "wide": 200, "deep": 200}  # the paper's


@dataclass(frozen=True)
class CompleteRow:
    """`search` is a text as of `anybound methods`, in which {batch} is the network's; None is the planner's choice.

    `root` bounds the hidden layers and, before the search, the output: the planner does that better than the paper.
    """

    label: str
    family: str
    search: str | None
    root: str | None = "wk"

    def options(self, role: str) -> Mapping[str, Any]:
        """How `anybound.verify` is called. Any: plain data."""
        options: dict[str, Any] = {"threads": 1, "complete": True}
        if self.search is not None:
            options["search"] = self.search.format(batch=BATCH[role])
        if self.root is not None:
            options["intermediate"] = options["method"] = self.root
        return options


def paper_rows() -> tuple[CompleteRow, ...]:
    """The paper's, and ours."""
    rows = (
        ("LP", "lp"),
        ("DSG+", "dsg"),
        ("Supergradient", "supergradient"),
        ("Proximal", "proximal"),
    )
    babsr = [
        CompleteRow(f"{name} BaBSR", name, f"paper({row}, batch={{batch}})") for name, row in rows
    ]
    mip = CompleteRow("MIPplanet", "MIPplanet", "mip")
    return (babsr[0], mip, *babsr[1:], CompleteRow(OURS, OURS, None, None))


def own_methods(methods: Sequence[Named]) -> tuple[CompleteRow, ...]:
    """BaBSR as the paper's rows, with methods of a user's own."""
    form = (
        "portable(method={}, rule=babsr, tightening=retighten, worst_first=True, batch={{batch}})"
    )
    return tuple(
        CompleteRow(f"{m.name} BaBSR", m.name, form.format(m.text)) for m in distinct(methods, ())
    )


def own_searches(searches: Sequence[Named]) -> tuple[CompleteRow, ...]:
    """Searches of a user's own, as they are."""
    taken = (row.label for row in paper_rows())
    return tuple(CompleteRow(s.name, s.name, s.text, None) for s in distinct(searches, taken))


def chosen(rows: Sequence[CompleteRow], labels: Sequence[str]) -> tuple[CompleteRow, ...]:
    """The rows with these labels, or all where none are named."""
    known = [row.label for row in rows]
    for label in labels:
        if label not in known:
            raise InvalidConfig(f"no row {label!r}: there are {', '.join(known)}")
    return tuple(row for row in rows if not labels or row.label in labels)


@dataclass(frozen=True)
class Complete:
    """What is run: rows on properties of networks, `timeout` seconds each, and at most `cpu` CPU seconds."""

    source: PropertySource
    roles: Sequence[str]
    rows: Sequence[CompleteRow]
    timeout: float
    count: int | None = None
    versions: Mapping[str, str | None] = field(default_factory=dict)
    cpu: float | None = None

    def records(self, file: RecordFile) -> Iterator[Record]:
        """All of them, property by property in the order of the rows; what the file holds is not repeated."""
        for role in self.roles:
            yield from self._recorded(role, file)
            runs = [self._run(role, row) for row in self.rows]
            known = [run.done(file) for run in runs]
            for instance in self.source.instances(role, self.count):
                for run, done in zip(runs, known, strict=True):
                    found = done.get(instance.name)
                    if found is not None:
                        yield found
                    else:
                        yield from _only(run, instance).records(file)

    def check(self, rows: Sequence[CompleteRow]) -> None:
        """Refuse searches that do not exist."""
        for row in rows:
            check_settings(row.root, row.root, row.options(self.roles[0]).get("search"))

    def total(self) -> int:
        """How many properties are decided in all."""
        return len(self.rows) * sum(len(self.source.instances(r, self.count)) for r in self.roles)

    def _run(self, role: str, row: CompleteRow) -> Run:
        return Run(
            self.source.instances(role, self.count),
            self.source.folder(role),
            self.timeout,
            options=row.options(role),
            versions=self.versions,
            labels={
                "role": role,
                "network": self.source.name(role),
                "row": row.label,
                "family": row.family,
            },
            cpu=self.cpu,
        )

    def _recorded(self, role: str, file: RecordFile) -> Iterator[Record]:
        """Times that the data set tells, as records of their own; they are written once."""
        known = {(r["role"], r["row"], r["vnnlib"]) for r in file.records if r.get(ELSEWHERE)}
        wanted = {i.vnnlib for i in self.source.instances(role, self.count)}
        for found in self.source.recorded(role):
            label = f"{found.row}, {ELSEWHERE}"
            if found.vnnlib not in wanted or (role, label, found.vnnlib) in known:
                continue
            record: Record = {
                "role": role,
                "network": self.source.name(role),
                "row": label,
                "family": found.row.removesuffix(" BaBSR"),
                "vnnlib": found.vnnlib,
                "verdict": {"unsat": "holds", "sat": "violated"}.get(found.verdict, "timeout"),
                "seconds": found.seconds,
                "cpu_seconds": found.seconds,
                "subproblems": found.subproblems,
                ELSEWHERE: True,
            }
            file.append(record)
            yield record


def _only(run: Run, instance: Instance) -> Run:
    return replace(run, instances=[instance])
