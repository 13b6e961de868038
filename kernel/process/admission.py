"""Which children may be made, and what may be started or removed now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from chain.ledger.ledger import Draft
from kernel.bounds import Bounds
from kernel.errors import (
    Busy,
    Conflict,
    Invalid,
    KernelError,
    NotFound,
    Refused,
    SupervisionWord,
    Unavailable,
)
from kernel.model.address import USER, ancestors, child_of, is_below, join
from kernel.model.makers import MadeBy
from kernel.model.spec import ProcessSpec
from kernel.operations.mailboxes import Mailbox
from kernel.policy.asker import PERSON, Asker
from kernel.policy.pipeline import Policy
from kernel.policy.proposal import SpawnProcess
from kernel.process.effects import Effects
from kernel.process.live import LiveTable, Supervisors
from kernel.process.slots.specs import child_spec, flags_of, supervisor_flags
from kernel.slices.tree.slots import Slot
from kernel.state.state import State
from kernel.supervision.reducer import Flags, SlotState
from kernel.supervision.strategies import combination_faults, strategy_faults

NO_PROMISES: Mapping[tuple[str, str], int] = MappingProxyType({})


class Admission:
    """Raises Invalid, Refused, NotFound, Conflict, Busy, Unavailable, and what policy has against it; changes nothing.
    ``removing`` are the addresses that are being removed, each with all below it.
    """

    def __init__(
        self, state: State, live: LiveTable, supervisors: Supervisors, effects: Effects, policy: Policy
    ) -> None:
        self._state = state
        self._live = live
        self._supervisors = supervisors
        self._effects = effects
        self._policy = policy
        self.removing: set[str] = set()

    # -- made ----------------------------------------------------------------------------------------------------

    def check_spawn(
        self,
        spec: ProcessSpec,
        parent: str,
        asker: Asker = PERSON,
        before: int = 0,
        before_there: int = 0,
        promised: Mapping[tuple[str, str], int] = NO_PROMISES,
    ) -> str:
        """The address a new child would have. So many come with it ``before`` it, ``before_there`` of them below
        ``parent``, and have so much ``promised`` of budgets.
        """
        self._check_kind(spec, parent)
        return self._check_own(spec, parent, asker, before, before_there, promised)

    def _check_kind(self, spec: ProcessSpec, parent: str) -> None:
        """What is asked of all that are like it below ``parent``."""
        if faults := spec_faults(spec):
            raise Invalid("; ".join(faults))
        if not (parent == USER or is_below(parent, USER)):
            raise Refused(f"children can be spawned under {USER}, not under {parent}")
        if parent not in self._state.slots:
            raise NotFound(f"no process at {parent} to spawn under; weftos tree shows the addresses")
        self._check_fits(spec, parent)
        self._check_up(parent)

    def _check_own(
        self,
        spec: ProcessSpec,
        parent: str,
        asker: Asker,
        before: int,
        before_there: int,
        promised: Mapping[tuple[str, str], int],
    ) -> str:
        """What is asked of each; its address."""
        address = join(parent, spec.name)
        self.check_not_removed(address)
        present = self._state.slots.get(address)
        if present is not None:
            stays = present.state in (SlotState.STOPPED, SlotState.PARKED)
            way = (
                f"weftos start {address} starts it again, weftos rm {address} frees it; or " if stays else ""
            )
            word: SupervisionWord = "already_present" if stays else "already_started"
            raise Conflict(f"{address} exists and is {present.state}; {way}choose another name", word=word)
        self._policy.require(asker, SpawnProcess(spec, parent, before, before_there, promised))
        return address

    def _check_fits(self, spec: ProcessSpec, parent: str) -> None:
        """A child is as its supervisor takes them."""
        above = self._state.slots[parent]
        if faults := fit_faults(spec, parent, above.spec.template, flags_of(above)):
            raise Invalid("; ".join(faults))

    def check_spawns(self, children: Iterable[tuple[str, ProcessSpec]]) -> list[KernelError]:
        """What a person is told of new children, each with its parent, that are to be made together."""
        faults: list[KernelError] = []
        there: Counter[str] = Counter()
        promised: Counter[tuple[str, str]] = Counter()
        taken: set[str] = set()  # by those before it: one parent can be named by its name, address and PID
        good: tuple[str, ProcessSpec] | None = None  # the last of whose kind nothing is to be said
        for before, (parent, spec) in enumerate(children):
            try:
                if good is None or parent != good[0] or not spec.is_like(good[1]):
                    self._check_kind(spec, parent)
                    good = parent, spec
                address = self._check_own(spec, parent, PERSON, before, there[parent], promised)
                if address in taken:
                    raise Conflict(f"{address} is made by another of them: choose another name")
                taken.add(address)
                if spec.budget is not None:
                    promised.update(self._state.accounts.book.sources(parent, spec.budget))
            except KernelError as error:
                faults.append(named_fault(spec.name, error))
            there[parent] += 1
        return faults

    def draft_spawn(
        self,
        spec: ProcessSpec,
        parent: str,
        pid: int,
        trace: bytes,
        cause: int,
        asker: Asker = PERSON,
        promised: Mapping[tuple[str, str], int] = NO_PROMISES,
    ) -> Draft:
        """The entry that makes a slot. ``promised``: what is on its way out of accounts of budgets."""
        self.check_spawn(spec, parent, asker, promised=promised)
        return self.entry_of(spec, parent, pid, trace, cause, asker)

    def entry_of(
        self,
        spec: ProcessSpec,
        parent: str,
        pid: int,
        trace: bytes,
        cause: int,
        asker: Asker,
        made_by: MadeBy = "",
    ) -> Draft:
        """The same of one that has been checked. ``made_by``: an application, for which ``asker`` has it made."""
        address = child_of(parent, spec.name)
        maker = made_by or asker.maker
        body = {"address": address, "made_by": maker, "parent": parent, "spec": spec.to_json()}
        return Draft("process.spawned", body, pid, "", trace, cause)

    def draft_session(self, spec: ProcessSpec, agent: str, trace: bytes, cause: int) -> Draft:
        """The entry that makes a session of a chat with ``agent``, whether that runs just now or comes back: a message
        for it is on its way.
        """
        if faults := spec_faults(spec):
            raise Invalid("; ".join(faults))
        if self._effects.closed:
            raise Unavailable("the node is stopping")
        self._check_fits(spec, agent)
        self._check_nothing_removed(join(agent, spec.name))
        self._policy.require(PERSON, SpawnProcess(spec, agent))
        return self.entry_of(spec, agent, 0, trace, cause, PERSON)

    def _check_up(self, parent: str) -> None:
        """A child begins below what runs, up to the root."""
        if self._effects.closed:
            raise Unavailable("the node is stopping")
        down = self._state.slots.down(parent)
        if down is not None:
            raise Refused(f"{down.address} is {down.state}; start it first")
        for address in (parent, *ancestors(parent)):
            self.check_not_removed(address)
            if self._live.at(address) is None:
                raise Busy(f"{address} is being restarted; try again when weftos ps shows it running")
            if self._supervisors.is_ending(address):
                raise Busy(f"{address} is ending; try again when weftos ps shows it running")

    # -- started, stopped, removed -------------------------------------------------------------------------------

    def slot(self, address: str) -> Slot:
        """A slot that somebody may stop, start or remove."""
        if address == USER or address not in self._state.slots:
            raise NotFound(
                f"{address} is not a slot that can be stopped, started or removed", word="not_found"
            )
        return self._state.slots[address]

    def check_start(self, address: str) -> Slot:
        """A slot that may be started now."""
        slot = self.slot(address)
        self._check_nothing_removed(address)
        self._check_up(slot.parent)
        if self._state.slots.down(address) is not None:
            self._check_emptied(self._state.slots.tree(address))
        return slot

    def removal(self, address: str, recursive: bool) -> list[str]:
        """What goes when the slot at ``address`` is removed, leaves first: it, and with ``recursive`` all below it.
        Refused when it is not stopped, Busy when something of it has not ended yet.
        """
        slot = self.slot(address)
        self._check_nothing_removed(address)
        if self._state.slots.down(address) is None:
            word = self._why_not_removed(slot)
            raise Refused(
                f"{address} is {slot.state}; weftos stop {address} stops it, then it can be removed",
                word=word,
            )
        slots = self._state.slots
        if not recursive and slots.child_count(address):
            below = sum(1 for _ in slots.tree(address)) - 1
            raise Refused(f"{below} are below {address}; weftos rm -r {address} removes them too")
        if self._supervisors.is_up(address):  # whoever has children ends last
            raise Busy(f"{self._running(address)} has not ended yet; try again in a moment", word="running")
        gone = list(slots.tree(address))[::-1]
        running = next(filter(self._supervisors.is_up, gone), None)
        if running is not None:
            raise Busy(f"{running} has not ended yet; try again in a moment", word="running")
        self._check_emptied(gone)
        return gone

    def _running(self, address: str) -> str:
        """Of what runs at ``address`` and below it, one that nothing runs below."""
        below = (child.address for child in self._state.slots.children(address))
        running = next(filter(self._supervisors.is_up, below), None)
        return address if running is None else self._running(running)

    def _why_not_removed(self, slot: Slot) -> SupervisionWord:
        """What OTP would answer of one that is not down."""
        above = self._state.slots.get(slot.parent)
        if above is not None and above.spec.template is not None:
            return "simple_one_for_one"
        return "restarting" if slot.state == SlotState.RESTARTING else "running"

    def _check_emptied(self, down: Iterable[str]) -> None:
        """What waited for something that is down is dead, though all of it may not be recorded yet."""
        late = next((one for one in down if self._state.mail.get(one)), None)
        if late is not None:
            raise Busy(f"the messages for {late} are being made dead letters; try again in a moment")

    def check_not_removed(self, address: str) -> None:
        """Raises Busy for one that is being removed."""
        if address in self.removing:
            raise Busy(f"{address} is being removed")

    def _check_nothing_removed(self, address: str) -> None:
        """Neither ``address``, nor what is above it, nor anything below: a removal lets the loop go on in between."""
        for at in (address, *ancestors(address)):
            self.check_not_removed(at)
        below = next((one for one in self.removing if is_below(one, address)), None)
        if below is not None:
            raise Busy(f"{below} is being removed; try again in a moment")


def spec_faults(spec: ProcessSpec) -> list[str]:
    """What is wrong with a child, wherever it is to be."""
    return spec.check() + _supervision_faults(spec)


def fit_faults(spec: ProcessSpec, parent: str, template: ProcessSpec | None, flags: Flags) -> list[str]:
    """Why a supervisor with these flags, and this template for its children, does not take such a child."""
    if template is not None and not spec.is_of(template):
        return [f"{parent} makes its children of a template: {spec.name} is another"]
    if faults := flags.against(child_spec(spec)):
        return [f"{spec.name} below {parent}: {'; '.join(faults)}"]
    return []


def _supervision_faults(spec: ProcessSpec) -> list[str]:
    """What is wrong with a child, or with a supervisor, in the words of supervision."""
    flags = supervisor_flags(spec)
    if faults := strategy_faults(flags) or combination_faults(flags):
        return faults
    said = spec.significant or spec.on_logical != "restart"
    return child_spec(spec).check() if said else []


def check_turn_timeout(wanted_s: float | None, allowed_s: float) -> None:
    """Raises Invalid for a turn that is to have longer than the node allows."""
    if wanted_s is not None and wanted_s > allowed_s:
        raise Invalid(
            f"turn_timeout_s {wanted_s:g} is more than the node's {allowed_s:g}: give at most that, or raise "
            "limits.turn_timeout_s"
        )


def check_mailbox(wanted: Mailbox | None, bounds: Bounds) -> None:
    """Raises Invalid for a mailbox that is to hold more than the node allows."""
    for name, allowed in (("messages", bounds.mailbox_messages), ("bytes", bounds.mailbox_bytes)):
        size = None if wanted is None else getattr(wanted, name)
        if size is not None and size > allowed:
            raise Invalid(
                f"mailbox: {name} is {size}, more than the node's {allowed}: give at most that, or raise "
                f"limits.mailbox_{name}"
            )


def named_fault(name: str, error: KernelError) -> KernelError:
    """The same, said of one of many."""
    return type(error)(f"{name}: {error}", word=error.word)
