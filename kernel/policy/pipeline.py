"""The pipeline: every gate is asked about every operation, and all that stands against it is kept.

One gate that denies decides, before any that escalates, and those before any that allows. A gate that raises denies: a
broken one never opens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kernel.bounds import Bounds
from kernel.policy.asker import Asker
from kernel.policy.proposal import Facts, Gate, Operation, Proposal, Verdict, deny
from kernel.state.recorder import Recorder

ALLOWED = Verdict("allow", ("capability",))
"""When no gate says anything: it is within the rights that it was asked with."""


class Policy:
    """The gates in force on a node. ``measured`` as of :class:`Facts`."""

    def __init__(
        self, gates: Iterable[Gate], recorder: Recorder, bounds: Bounds, measured: bool = True
    ) -> None:
        self._gates = tuple(gates)
        self._ledger = recorder.ledger
        self._writable = Facts(recorder.state, bounds, True, measured)
        self._unwritable = Facts(recorder.state, bounds, False, measured)

    def judge(self, asker: Asker, operation: Operation) -> Verdict:
        """What the gates say."""
        return judge(self._gates, Proposal(asker, operation), self._facts())

    def explain(self, asker: Asker, operation: Operation) -> tuple[Verdict, list[tuple[str, Verdict]]]:
        """What the gates say together, and what each says by its name."""
        facts = self._facts()
        proposal = Proposal(asker, operation)
        said = [(name_of(gate), judge((gate,), proposal, facts)) for gate in self._gates]
        return judge(self._gates, proposal, facts), [each for each in said if each[1] is not ALLOWED]

    def _facts(self) -> Facts:
        return self._writable if self._ledger.read_only is None else self._unwritable

    def require(self, asker: Asker, operation: Operation) -> None:
        """Raises what the first gate that denies wants raised, with every reason. What wants a person's word is
        refused: there is nobody to ask.
        """
        verdict = self.judge(asker, operation)
        if verdict.decision != "allow":
            raise verdict.raised()


def judge(gates: Sequence[Gate], proposal: Proposal, facts: Facts) -> Verdict:
    """What all ``gates`` say together, with their reasons in this order."""
    said: list[Verdict] = []
    for gate in gates:
        try:
            verdict = gate(proposal, facts)
        except Exception as error:  # a broken gate must never open
            verdict = deny(f"{name_of(gate)} failed: {type(error).__name__}")
        if verdict is not None:
            said.append(verdict)
    return _together(said) if said else ALLOWED


def name_of(gate: Gate) -> str:
    """What a gate is called."""
    return str(getattr(gate, "__name__", type(gate).__name__))


def _together(said: list[Verdict]) -> Verdict:
    against = [verdict for verdict in said if verdict.decision != "allow"]
    reasons = tuple(reason for verdict in against or said for reason in verdict.reasons)
    first = next((one for one in against if one.decision == "deny"), (against or said)[0])
    return Verdict(first.decision, reasons, first.error, first.retry_after_s)
