"""Certificates of whole properties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from anybound.bound.compact.network import supports
from anybound.budget import Budget
from anybound.certificate import Certificate, ClauseProof, Group
from anybound.certifying.hidden import bound_neurons
from anybound.certifying.input_set import InputSet
from anybound.certifying.intermediate import bound_layers
from anybound.certifying.portable import prove_on_portable
from anybound.certifying.turns import few_inputs, in_turns
from anybound.errors import UnsupportedModel
from anybound.io.files import read_bytes
from anybound.io.onnx_reader import load
from anybound.io.vnnlib import read_vnnlib
from anybound.search.neuron_trees import NeuronTrees
from anybound.spec.problems import SafetyProblem, problems
from anybound_check.arithmetic import Unreadable
from anybound_check.network import read_network
from anybound_check.proof import Checker
from anybound_check.vnnlib import read_property

PLAIN_SHARE = 0.1  # of the time, before hidden neurons get trees
GROWTH = 4  # of the trees, from pass to pass


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
            group = self._group(safety, budget.share(1 / (len(todo) - index)))
            if group is None:
                return None
            groups.append(group)
        return Certificate(self.model, self.spec, groups, self.semantics)

    def _group(self, safety: SafetyProblem, budget: Budget) -> Group | None:
        """All clauses over one input set: the easy way, or else by all means."""
        task = InputSet(self.network, self.property, self.checker, safety)
        is_compact = not supports(task.network, task.box)
        bound_layers(task, budget.share(0.5), tight=False)
        proofs = _plain(task)
        if len(proofs) < len(safety.clauses) and not is_compact:
            task = InputSet(self.network, self.property, self.checker, safety)
            bound_layers(task, budget.share(0.5), tight=True)
            proofs = _plain(task)
        is_deep = is_compact and len(task.numbering.activation) > 1 and not few_inputs(task)
        proofs |= _searched(task, proofs, budget.share(PLAIN_SHARE) if is_deep else budget)
        trees = NeuronTrees()
        while is_deep and len(proofs) < len(safety.clauses) and not budget.is_spent():
            is_deep = bound_neurons(task, trees, budget.share(0.5)) >= trees.least_gain
            trees = replace(trees, subproblems=GROWTH * trees.subproblems)
            proofs = _plain(task)  # of the bounds as they are now
            proofs |= _searched(task, proofs, budget.share(0.5) if is_deep else budget)
        if len(proofs) < len(safety.clauses):
            return None
        return Group(task.steps, [proofs[member.clause] for member in safety.clauses])


def _searched(
    task: InputSet, known: Mapping[int, ClauseProof], budget: Budget
) -> dict[int, ClauseProof]:
    """Proofs of the other clauses, of as many as there is time for."""
    left = [member for member in task.safety.clauses if member.clause not in known]
    if not left:
        return {}
    prove = prove_on_portable if supports(task.network, task.box) else in_turns
    return prove(task, left, budget)


def _plain(task: InputSet) -> dict[int, ClauseProof]:
    """Those of a single leaf with the checker's own slopes, of the clauses for which it is enough."""
    proofs = {}
    for member in task.safety.clauses:
        rows = member.rows.stop - member.rows.start
        weights = None if rows == 1 else np.ones((1, rows))
        proof = ClauseProof(task.number[member.clause], weights=weights)
        if task.proves(task.region, member, proof):
            proofs[member.clause] = proof
    return proofs
