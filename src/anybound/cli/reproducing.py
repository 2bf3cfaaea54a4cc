"""What `anybound reproduce` does for each experiment: run what has no record yet, then draw all records."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from anybound.cli.live import display
from anybound.cli.output import Output
from anybound.cli.versions import versions
from anybound.errors import InvalidConfig

if TYPE_CHECKING:
    from anybound.experiments.cases import Source
    from anybound.experiments.complete import Complete, CompleteRow
    from anybound.experiments.incomplete import Incomplete
    from anybound.experiments.results import Results
    from anybound.experiments.rows import Row
    from anybound.experiments.study import Study
    from anybound.io.records import RecordFile

AnyRow = TypeVar("AnyRow", "Row", "CompleteRow")

__all__ = ["RUN", "VARIABLE"]

VARIABLE = "ANYBOUND_BENCHMARKS"
_SOLVED = ("LP", "LP time-limited", "MIPplanet")  # families of rows that need HiGHS
_ON_PAPER, _ON_DIGITS = 100.0, 5.0  # seconds for a property


def _incomplete(options: Namespace, folder: Path, output: Output) -> Results:
    from anybound.experiments.cases import ROLES
    from anybound.experiments.incomplete import Incomplete
    from anybound.experiments.incomplete_results import results
    from anybound.experiments.measurement import Measurement
    from anybound.experiments.recorded import records_of
    from anybound.experiments.rows import Counts, chosen, incomplete_rows, own_rows
    from anybound.experiments.tuning import kept
    from anybound.io.records import RecordFile
    from anybound.runtime.signals import sigterm_interrupts

    path = folder / "records.jsonl"
    if options.draw:
        return results([Measurement.of(r) for r in records_of(path, "incomplete")], folder)
    _one_thread(options)
    source, roles = _images(options, output), _roles(options, ROLES)
    counts = kept(folder / "counts.json", source, roles) if options.equal_time else Counts()
    known = incomplete_rows(counts)
    own, asked = own_rows(options.method, known), chosen(known, options.row)
    rows = (*_solvable(asked, options, output), *own)
    run = Incomplete(source, roles, rows, options.images, versions())
    with RecordFile(path) as file, sigterm_interrupts(), display(output) as shown:
        _tell_before(file, "incomplete", run, output)
        total = run.total()
        measured = []
        for m in run.measurements(file):
            measured.append(m)
            took = f"{m.network} image {m.image}: {m.row}, {m.cpu_seconds:.3g} s"
            shown.note(f"[{len(measured)}/{total}] {took}")
    return results(measured, folder)


def _complete(options: Namespace, folder: Path, output: Output) -> Results:
    from anybound.experiments.complete import chosen, own_methods, own_searches, paper_rows
    from anybound.experiments.properties import ROLES
    from anybound.experiments.recorded import records_of

    path = folder / "records.jsonl"
    if not options.draw:
        own = (*own_methods(options.method), *own_searches(options.search))
        rows = (*_solvable(chosen(paper_rows(), options.row), options, output), *own)
        _decide(options, _roles(options, ROLES), path, rows, own, output)
    from anybound.experiments.complete_results import results

    return results(records_of(path, "complete"), folder)


def _study(options: Namespace, folder: Path, output: Output) -> Results:
    from anybound.experiments.recorded import records_of

    path, searched = folder / "records.jsonl", folder / "search.jsonl"
    if not options.draw:
        images, searches = _parts(options.network)
        if images:
            _rise(options, images, path, output)
        if searches:
            _decide(options, searches, searched, *_study_rows(options), output)
    from anybound.experiments.study_results import results

    known = records_of(searched, "complete") if searched.is_file() else []
    risen = records_of(path, "study") if path.is_file() or not known else []
    return results(risen, known, folder)


def _parts(networks: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """The networks of the study's two parts: all where none is named."""
    from anybound.experiments import cases, properties

    for role in networks:
        _check_role(role, (*cases.ROLES, *properties.ROLES))
    chosen = networks or (*cases.ROLES, *properties.ROLES)
    return [r for r in cases.ROLES if r in chosen], [r for r in properties.ROLES if r in chosen]


def _study_rows(options: Namespace) -> tuple[Sequence[CompleteRow], Sequence[CompleteRow]]:
    """All rows, and those of a user's own."""
    from anybound.experiments.complete import chosen, own_methods, own_searches, paper_rows
    from anybound.experiments.study import SEARCHED

    beside = chosen(paper_rows(), ("Supergradient BaBSR", "Proximal BaBSR", "anybound"))
    own = (*own_methods(options.method), *own_searches(options.search))
    return (*beside, *own_methods(SEARCHED), *own), own


def _rise(options: Namespace, roles: Sequence[str], path: Path, output: Output) -> None:
    """The study's part on images."""
    from anybound.experiments.rows import own_rows
    from anybound.experiments.study import Study, study_rows
    from anybound.io.records import RecordFile
    from anybound.runtime.signals import sigterm_interrupts

    _one_thread(options)
    own = own_rows(options.method, [row for rows in study_rows().values() for row in rows])
    run = Study(_images(options, output), roles, own, options.images)
    with RecordFile(path) as file, sigterm_interrupts(), display(output) as shown:
        _tell_before(file, "study", run, output)
        total = run.total()
        for number, found in enumerate(run.records(file), 1):
            shown.note(f"[{number}/{total}] {found.network} image {found.image}: {found.row}")


def _decide(
    options: Namespace,
    roles: Sequence[str],
    path: Path,
    rows: Sequence[CompleteRow],
    own: Sequence[CompleteRow],
    output: Output,
) -> None:
    """Decide properties by rows, in processes of their own."""
    from anybound.experiments.complete import ELSEWHERE, Complete
    from anybound.experiments.properties import DigitProperties, PaperProperties
    from anybound.io.records import RecordFile
    from anybound.runtime.signals import sigterm_interrupts

    data = _data(options, output)
    timeout = options.timeout or (_ON_DIGITS if data is None else _ON_PAPER)
    source = DigitProperties() if data is None else PaperProperties(data)
    run = Complete(source, roles, rows, timeout, options.count, versions(), options.cpu)
    run.check(own)
    with RecordFile(path) as file, sigterm_interrupts(), display(output) as shown:
        _tell_before(file, "complete", run, output)
        here = (record for record in run.records(file) if not record.get(ELSEWHERE))
        for number, record in enumerate(here, 1):
            took = f"{record['verdict']:<8} {record['cpu_seconds']:8.2f} s"
            shown.note(f"[{number}/{run.total()}] {took}  {record['row']}: {record['vnnlib']}")


def _solvable(rows: Sequence[AnyRow], options: Namespace, output: Output) -> Sequence[AnyRow]:
    """The rows, without those that need HiGHS where it is not installed and nobody asked for them."""
    from importlib.util import find_spec

    needy = [row.label for row in rows if row.family in _SOLVED]
    if options.row or not needy or find_spec("highspy") is not None:
        return rows
    output.note(f"left out: {', '.join(needy)}; they need HiGHS: pip install 'anybound[lp]'")
    return [row for row in rows if row.family not in _SOLVED]


def _one_thread(options: Namespace) -> None:
    """Seconds are those of one thread, unless more are asked for."""
    import torch

    torch.set_num_threads(options.threads or 1)


def _data(options: Namespace, output: Output) -> Path | None:
    """The folder of benchmarks, or None for digits."""
    given = options.data or (None if options.digits else os.environ.get(VARIABLE))
    if given:
        return Path(given)
    if not options.digits:
        output.note(f"no data given (--data, ${VARIABLE}): running on the bundled digits")
    return None


def _images(options: Namespace, output: Output) -> Source:
    from anybound.experiments.cases import Digits, Paper

    data = _data(options, output)
    return Digits() if data is None else Paper(data)


def _roles(options: Namespace, known: Sequence[str]) -> Sequence[str]:
    for role in options.network:
        _check_role(role, known)
    return [role for role in known if not options.network or role in options.network]


def _check_role(role: str, known: Sequence[str]) -> None:
    if role not in known:
        raise InvalidConfig(f"--network {role}: there are {', '.join(known)}")


def _tell_before(
    file: RecordFile, experiment: str, run: Incomplete | Complete | Study, output: Output
) -> None:
    """What is there already, which has to be the experiment's, of the same networks."""
    from anybound.experiments.recorded import check_records

    names = {role: run.source.name(role) for role in run.roles}
    check_records(file.path, file.records, experiment, names)
    if file.records:
        output.note(f"going on: {len(file.records)} records are in {file.path}")


RUN: Mapping[str, Callable[[Namespace, Path, Output], Results]] = MappingProxyType(
    {"incomplete": _incomplete, "complete": _complete, "study": _study}
)
