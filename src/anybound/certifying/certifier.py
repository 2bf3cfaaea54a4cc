"""Certificates of whole properties."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from anybound.bound.compact.network import supports
from anybound.budget import Budget
from anybound.certificate import Certificate, ClauseProof, Group
from anybound.certifying.input_set import InputSet
from anybound.certifying.intermediate import bound_layers
from anybound.certifying.turns import in_turns
from anybound.errors import UnsupportedModel
from anybound.io.files import read_bytes
from anybound.io.onnx_reader import load
from anybound.io.vnnlib import read_vnnlib
from anybound.spec.problems import problems
from anybound_check.arithmetic import Unreadable
from anybound_check.network import read_network
from anybound_check.proof import Checker
from anybound_check.vnnlib import read_property


class Certifier:
    """A network and a property, from files; `semantics` is "real" or "float32"."""

    def __init__(self, network: str | Path, prop: str | Path, semantics: str = "real") -> None:
        self.model, self.spec, self.semantics = read_bytes(network), read_bytes(prop), semantics
        self.network, self.property = load(network, check=False), read_vnnlib(prop)
        try:
            checked = read_network(self.model)
            sizes = checked.nodes[0].size, checked.nodes[checked.output].size
            clauses = read_property(self.spec, *sizes)
            self.checker = Checker(checked, clauses, semantics == "float32")
        except Unreadable as error:
            raise UnsupportedModel(f"no certificate can be written: {error}") from None

    def certificate(self, budget: Budget | None = None) -> Certificate | None:
        """A proof of the whole property; None if some of it was not proved in time."""
        with np.errstate(all="ignore"):  # as in the checker: it refuses what is not finite
            return self._certificate(budget or Budget())

    def _certificate(self, budget: Budget) -> Certificate | None:
        groups = []
        todo = list(problems(self.network, self.property))
        for index, safety in enumerate(todo):
            task = InputSet(self.network, self.property, self.checker, safety)
            share = budget.share(1 / (len(todo) - index))
            bound_layers(task, share.share(0.5))
            proofs = self._proofs(task, share)
            if len(proofs) < len(safety.clauses):
                return None
            groups.append(Group(task.steps, [proofs[m.clause] for m in safety.clauses]))
        return Certificate(self.model, self.spec, groups, self.semantics)

    def _proofs(self, task: InputSet, budget: Budget) -> dict[int, ClauseProof]:
        if supports(task.network, task.box):
            return {}
        return in_turns(task, budget)
