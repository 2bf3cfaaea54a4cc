"""Splits of neurons and of the input, in turns, where neurons have one bend: what is faster is not known beforehand."""

from __future__ import annotations

from collections.abc import Sequence

from anybound.budget import Budget
from anybound.certificate import ClauseProof
from anybound.certifying.boxes import BoxBounder, BoxProof
from anybound.certifying.input_set import InputSet
from anybound.certifying.neurons import NeuronPlan, NeuronProofs
from anybound.search.input_split.folded import supports
from anybound.spec.problems import ClauseRows

FIRST = 0.5  # seconds of the first turn; each is twice as long as the one before
FEW_INPUTS = 12  # up to so many the input has the first turn
SOME_INPUTS = 128  # with more, halving one at a time gets nowhere


def in_turns(
    task: InputSet, members: Sequence[ClauseRows], budget: Budget
) -> dict[int, ClauseProof]:
    """Proofs by clause, of as many of these as there is time for."""
    if not few_inputs(task):
        return NeuronProofs(task, NeuronPlan(), budget).prove(members)
    proofs, boxes = dict[int, ClauseProof](), dict[int, BoxProof]()
    seconds, neurons_next = FIRST, _varying(task) > FEW_INPUTS
    while len(proofs) < len(members) and not budget.is_spent():
        left = [member for member in members if member.clause not in proofs]
        turn = budget.within(seconds)
        if neurons_next:
            proofs |= NeuronProofs(task, NeuronPlan(), turn).prove(left)
        for i, member in enumerate([] if neurons_next else left):
            if member.clause not in boxes:
                boxes[member.clause] = BoxProof(BoxBounder.of(task, member))
            proof = boxes[member.clause].run(turn.share(1 / (len(left) - i)))
            proofs |= {} if proof is None else {member.clause: proof}
        neurons_next, seconds = not neurons_next, seconds * 1.5
    return proofs


def few_inputs(task: InputSet) -> bool:
    """Whether the input is split, too."""
    return 0 < _varying(task) <= SOME_INPUTS and not supports(task.network, task.box)


def _varying(task: InputSet) -> int:
    return int((task.box.lower < task.box.upper).sum())
