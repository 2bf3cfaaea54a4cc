"""What is handed over with a verdict: a certificate, or a witness, and what the checker says of it.

The checker runs in a process of its own, from its own code; this module only reads its answer.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from anybound.budget import Budget
from anybound.certifying.certifier import Certifier
from anybound.errors import InvalidConfig, InvalidInput, UnsupportedModel
from anybound.io.competition import write_result
from anybound.io.files import writable
from anybound.io.records import outcome_record
from anybound.outcome import Outcome, Verdict

SEMANTICS = ("real", "float32")


@dataclass(frozen=True)
class Evidence:
    """Where to write it (None: nowhere for long), whether to have it checked, and what it claims."""

    path: Path | None
    check: bool
    semantics: str = "real"

    def __post_init__(self) -> None:
        if self.semantics not in SEMANTICS:
            raise InvalidConfig(
                f"semantics is {self.semantics!r}; expected one of {', '.join(SEMANTICS)}"
            )
        if self.path is not None:
            writable(self.path)

    def of(
        self, outcome: Outcome, network: str | Path, prop: str | Path, budget: Budget
    ) -> tuple[bool | None, str]:
        """What the checker says, None if it was not asked; and what became of the evidence."""
        with TemporaryDirectory(prefix="anybound-") as folder:
            path = Path(folder) / "evidence.abc" if self.path is None else self.path
            found = self._write(outcome, network, prop, path, budget)
            if found or not self.check:
                return (False if self.check else None), found or _told(path)
            reason = recheck(network, prop, path, budget)
            return not reason, reason or _told(path)

    def _write(
        self, outcome: Outcome, network: str | Path, prop: str | Path, path: Path, budget: Budget
    ) -> str:
        """Why nothing was written; empty if it was."""
        if outcome.verdict is Verdict.VIOLATED:
            write_result(path, outcome_record(outcome))
            return ""
        if outcome.verdict is not Verdict.HOLDS:
            return "there is no verdict to certify"
        try:
            certificate = Certifier(network, prop, self.semantics).certificate(budget)
        except UnsupportedModel as error:
            return str(error)
        if certificate is None:
            return "no certificate was found in the time there was"
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            certificate.write(draft)
            draft.replace(path)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise InvalidInput(f"{path}: cannot be written: {error.strerror}") from None
        return ""


def recheck(network: str | Path, prop: str | Path, path: Path, budget: Budget) -> str:
    """Why the checker does not accept a file; empty if it does."""
    command = [sys.executable, "-m", "anybound_check", "--json", *map(str, (network, prop, path))]
    left = None if budget.seconds is None else max(0.1, budget.left())
    try:
        run = subprocess.run(command, capture_output=True, timeout=left, check=False)
        report = json.loads(run.stdout)
    except subprocess.TimeoutExpired:
        return "the checker was not done in the time there was"
    except ValueError:
        return "the checker failed: " + run.stderr.decode(errors="replace")[-300:]
    return "" if run.returncode == 0 and report["valid"] is True else str(report["reason"])


def _told(path: Path) -> str:
    return f"{path.name}, {path.stat().st_size} bytes"
