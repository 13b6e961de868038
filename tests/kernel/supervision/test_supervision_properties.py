"""What holds for every sequence of events: a supervisor against a shell that reports late, twice, or nonsense."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.errors import SupervisionError
from kernel.model.states import is_blameless, is_logical, is_orderly
from kernel.supervision.reducer import (
    STRATEGIES,
    Add,
    Child,
    ChildSpec,
    Dropped,
    Effect,
    Event,
    Exited,
    Flags,
    GiveUp,
    Phase,
    Remove,
    RestartDue,
    Shutdown,
    SlotChanged,
    SlotState,
    Start,
    StartChild,
    StartChildAfter,
    Started,
    StartFailed,
    Stop,
    StopChild,
    begin,
    step,
)
from tests.kernel.supervision.test_supervision import flags_of

IDS = ["a", "b", "c", "d"]
REASONS = ["normal", "shutdown", "shutdown:x", "killed", "crash", "cell_lost", "timeout", "no_progress"]
LOGICAL = st.sampled_from(["restart", "end", "park"])
BATCHES = [None, None, "cell 1", "cell 2"]

specs = st.builds(
    ChildSpec,
    st.sampled_from(IDS),
    st.sampled_from(["permanent", "transient", "temporary"]),
    on_logical=LOGICAL,
).filter(lambda spec: not spec.check())
ids = st.sampled_from(IDS)
reasons = st.sampled_from(REASONS)
batches = st.sampled_from(BATCHES)

# An action either is an event as it stands, or needs the world's word for which incarnation is meant.
Action = Event | tuple[str, ...]
History = list[tuple[Action, float, float]]
actions = st.one_of(
    specs.map(Add),
    ids.map(Start),
    ids.map(Stop),
    ids.map(Remove),
    ids.map(RestartDue),
    st.builds(
        Exited, ids, st.integers(1, 40), reasons, batches
    ),  # perhaps of another incarnation, or of none
    st.tuples(st.just("starts"), ids),
    st.tuples(st.just("comes up and exits"), ids, reasons),
    st.tuples(st.just("comes up and exits"), ids, st.just("crash")),
    st.tuples(st.just("starts not"), ids, reasons),
    st.tuples(st.just("exits"), ids, reasons),
    st.tuples(st.just("cell dies"), st.sampled_from(["cell 3", "cell 4", "cell 5"])),
    st.tuples(st.just("timer fires"), ids),
)
pauses = st.sampled_from([0.0, 0.0, 0.5, 2.0, 5.0, 5.1])
histories = st.lists(st.tuples(actions, pauses, st.floats(0, 1, exclude_max=True)), max_size=50)
families = st.lists(specs, max_size=3, unique_by=lambda spec: spec.id)
flag_sets = st.builds(
    Flags,
    intensity=st.integers(0, 3),
    period_s=st.just(5.0),
    on_exceed=st.sampled_from(["shutdown", "park"]),
)
groups = st.builds(
    Flags,
    intensity=st.integers(1, 8),
    period_s=st.just(5.0),
    strategy=st.sampled_from([name for name, strategy in STRATEGIES.items() if strategy.in_order]),
)
dynamic = st.builds(
    Flags,
    intensity=st.integers(0, 3),
    period_s=st.just(5.0),
    strategy=st.just("simple_one_for_one"),
    template=st.builds(
        ChildSpec,
        st.just(""),
        st.sampled_from(["permanent", "transient", "temporary"]),
        on_logical=st.sampled_from(["restart", "end"]),
    ),
)
group_families = st.tuples(
    *(
        st.builds(ChildSpec, st.just(id), st.sampled_from(["permanent"] * 3 + ["transient", "temporary"]))
        for id in IDS
    )
)


@dataclass
class World:
    """What truly runs, from the effects alone; checks each effect against the rules as it comes.

    ``leaving`` is who ran when the present restart of several began, and has not ended yet; ``stopping`` who was told
    to stop; ``hasty`` whose start was asked for and not left to that restart.
    """

    flags: Flags
    now_s: float = 0.0
    next_pid: int = 100
    starting: set[str] = field(default_factory=set)
    running: dict[str, int] = field(default_factory=dict)
    timers: set[str] = field(default_factory=set)
    slots: dict[str, SlotState] = field(default_factory=dict)
    restarts: list[tuple[float, str, str, str | None]] = field(default_factory=list)  # at, id, reason, batch
    asked: dict[str, float] = field(default_factory=dict)  # when a start was last asked for
    leaving: set[str] = field(default_factory=set)
    stopping: set[str] = field(default_factory=set)
    hasty: set[str] = field(default_factory=set)
    pardoned: str | None = None  # the newest batch that a start which was asked for began
    given_up: bool = False

    @property
    def in_order(self) -> bool:
        return STRATEGIES[self.flags.strategy].in_order

    @property
    def is_dynamic(self) -> bool:
        return STRATEGIES[self.flags.strategy].dynamic

    def __post_init__(self) -> None:
        self.sup, _ = begin(self.flags)

    def alive(self) -> set[str]:
        return self.starting | set(self.running)

    def happen(self, event: Event, jitter: float = 0.0) -> None:
        before = self.sup
        try:
            self.sup, effects = step(self.sup, event, self.now_s, jitter)
        except SupervisionError:
            assert self.sup is before
            return
        if isinstance(event, Add):
            self.slots[event.spec.id] = SlotState.RUNNING
        if isinstance(event, Start | Stop) and not self.in_order:
            self.timers.discard(event.id)
        ended_id = getattr(event, "id", "")
        was_leaving, known = ended_id in self.leaving, before.table.get(ended_id)
        up = isinstance(event, Exited) and self.running.get(event.id) == event.pid
        ended = self._note_report(event)
        if ended and known is not None:
            self._note_pardon(event, known)
        if ended:
            for kept in (self.leaving, self.stopping, self.hasty):
                kept.discard(ended_id)
        if self.in_order and ended and not was_leaving:
            self._note_failure(event)
        if (
            up
            and not was_leaving
            and isinstance(event, Exited)
            and is_orderly(event.reason)
            and self._is_transient(event.id)
        ):
            assert StartChild(event.id) not in effects
            assert not [effect for effect in effects if isinstance(effect, StartChildAfter)]
        if up and not was_leaving and known is not None and known.slot is not SlotState.STOPPED:
            self._check_logical(event, known, effects)
        for effect in effects:
            self._check(effect, event, ended)
        if ended and known is not None and known.spec.restart == "temporary":
            assert ended_id not in self.sup.table, "a temporary child that has ended is kept"
        self._check_state()

    def _check_logical(self, event: Event, child: Child, effects: Sequence[Effect]) -> None:
        """What its spec says of such an end, and nothing else."""
        said = child.spec.on_logical
        if (
            not isinstance(event, Exited)
            or not is_logical(event.reason)
            or said == "restart"
            or self.sup.closing
        ):
            return
        id, state = child.spec.id, SlotState.PARKED if said == "park" else SlotState.STOPPED
        gone = child.spec.restart == "temporary" or self.is_dynamic
        ended = SlotChanged(id, state, event.reason)
        if not gone:
            assert tuple(effects) == (ended,)
        elif child.spec.restart == "temporary":
            assert tuple(effects) == (Dropped(id, event.reason),)
        else:
            assert tuple(effects) == (ended, Dropped(id, event.reason))

    def _note_report(self, event: Event) -> bool:
        """Take what the event says into the world; whether it ended the present incarnation."""
        match event:
            case Started(id, pid) if id in self.starting:
                self.starting.remove(id)
                self.running[id] = pid
                if self.slots[id] is SlotState.RESTARTING and id not in self.stopping:
                    self.slots[id] = SlotState.RUNNING  # no effect says so, since the report does
            case StartFailed(id) if id in self.starting:
                self.starting.remove(id)
                return True
            case Exited(id, pid) if self.running.get(id) == pid or id in self.starting:
                self.running.pop(id, None)
                self.starting.discard(id)
                return True
        return False

    def _note_pardon(self, event: Event, known: Child) -> None:
        """Who was asked for and does not start is not started again: what goes with it is charged to nobody."""
        assert isinstance(event, Exited | StartFailed)
        asked = known.asked and known.phase is Phase.STARTING and self.sup.closing is None
        if asked and not is_blameless(event.reason) and event.batch is not None:
            self.pardoned = event.batch

    def _note_failure(self, event: Event) -> None:
        """One that is charged, and begins the restart of several: those who run are to stop."""
        assert isinstance(event, Exited | StartFailed)
        failed = self.sup.table.get(event.id)
        if self.sup.closing or failed is None or failed.phase not in (Phase.QUEUED, Phase.STARTING):
            return
        self._restarted(event.id, event)
        behind = -1 if self.flags.strategy == "one_for_all" else failed.order
        self.leaving |= {id for id in self.alive() if self.sup.child(id).order > behind}

    def _check(self, effect: Effect, event: Event, ended: bool) -> None:
        match effect:
            case StartChild(id):
                assert not self.sup.closing, "started while ending"
                assert id not in self.alive(), "two incarnations at once"
                assert self.slots[id] not in (SlotState.STOPPED, SlotState.PARKED)
                if self.in_order:
                    self._check_order(id, event)
                elif ended:
                    self._restarted(id, event)
                self.starting.add(id)
            case StartChildAfter(id, delay_s):
                assert ended and 0 < delay_s <= self.flags.backoff_max_s
                assert not self.sup.closing and id not in self.alive()
                if self.in_order:
                    assert not self.leaving, "the back-off begins before all are gone"
                else:
                    self._restarted(id, event)
                self.timers.add(id)
            case StopChild(id):
                assert id in self.alive(), "stopped what does not run"
                assert self.sup.closing or id not in self.stopping, "told to stop twice"
                self.stopping.add(id)
                if not isinstance(event, Stop):
                    self._check_turn(id)
            case SlotChanged(id, state, _):
                assert self.slots[id] is not state
                self.slots[id] = state
            case Dropped(id):
                assert id not in self.alive()
                self.leaving.discard(id)
                del self.slots[id]
            case GiveUp():
                assert not self.given_up and not self.alive()
                self.given_up = True

    def _check_turn(self, id: str) -> None:
        """Reverse order: whoever was added later is gone already."""
        assert self.sup.closing is not None or id in self.leaving, "stopped, and nobody had it stopped"
        order = [child.spec.id for child in self.sup.children]
        assert self.is_dynamic or not self.alive() & set(order[order.index(id) + 1 :])

    def _check_order(self, id: str, event: Event) -> None:
        """Who is to run before ``id`` does, and nobody is left who is to stop."""
        if isinstance(event, Add | Start):
            self.hasty.add(id)
            order = self.sup.child(id).order
            before = {child.spec.id for child in self.sup.children if child.order < order}
            waiting = {each for each in before if self.sup.child(each).phase is Phase.QUEUED}
            assert not waiting | (before & self.leaving), "started before those that are restarted"
            return
        assert not self.leaving, "started while others are still to stop"
        for child in self.sup.children:
            if child.spec.id == id:
                return
            wanted = child.slot in (SlotState.RUNNING, SlotState.RESTARTING)
            assert not wanted or child.spec.id in set(self.running) | self.hasty, "started before its turn"

    def _moves(self) -> bool:
        """Whether something is under way that the restart of several waits for."""
        group = self.sup.group
        if group is None or (group.waiting and group.failed in self.timers):
            return group is not None
        return bool(self.stopping & self.alive()) or bool(self.starting)

    def _restarted(self, id: str, event: Event) -> None:
        """Intensity: what it allows, counted anew over all restarts there ever were."""
        assert isinstance(event, Exited | StartFailed)
        assert self.sup.child(id).spec.restart != "temporary"
        if event.batch is not None and event.batch == self.pardoned:
            return
        self.restarts.append((self.now_s, id, event.reason, event.batch))
        recent = [r for r in self.restarts if self.now_s - r[0] <= self.flags.period_s]
        if self.flags.on_exceed == "park":
            mine = [r for r in recent if r[1] == id and not is_blameless(r[2])]
            assert len(mine) <= self.flags.intensity or self._asked_since(id, mine[0][0])
        else:
            batches = {batch for *_, batch in recent if batch is not None}
            alone = [r for r in recent if r[3] is None and not is_blameless(r[2])]
            assert len(batches) + len(alone) <= self.flags.intensity

    def _is_transient(self, id: str) -> bool:
        child = self.sup.table.get(id)
        return child is not None and child.spec.restart == "transient"

    def _asked_since(self, id: str, at_s: float) -> bool:
        return self.asked.get(id, -1.0) >= at_s

    def _check_state(self) -> None:
        assert {child.spec.id: child.slot for child in self.sup.children} == self.slots
        assert len(self.sup.table) == len(self.slots)
        active = sum(child.phase in (Phase.STARTING, Phase.UP, Phase.STOPPING) for child in self.sup.children)
        assert self.sup.counts()["active"] == active
        for child in self.sup.children:
            id = child.spec.id
            assert child.pid == self.running.get(id)
            if self.sup.closing is None:
                wanted = child.slot in (SlotState.RUNNING, SlotState.RESTARTING)
                queued = child.phase is Phase.QUEUED and self._moves()
                comes = queued or (child.phase is Phase.WAITING and id in self.timers)
                assert not wanted or id in self.alive() or comes, "a child that nobody brings back"
                assert wanted or child.phase in (Phase.NONE, Phase.STOPPING) or id in self.leaving
            if self.is_dynamic and self.sup.closing is None:
                assert child.is_wanted or id in self.alive(), "a slot of a template is kept for nothing"
            if child.spec.restart == "temporary":
                assert id in self.alive() or child.phase is Phase.QUEUED, (
                    "a temporary child outlived its process"
                )


def act(world: World, action: Action, jitter: float) -> None:
    """Make an event of ``action``, where the present state of the world has one."""
    match action:
        case ("starts", id) if id in world.starting:
            world.next_pid += 1
            world.happen(Started(id, world.next_pid))
        case ("comes up and exits", id, reason):
            for part in (("timer fires", id), ("starts", id), ("exits", id, reason)):
                act(world, part, jitter)
        case ("starts not", id, reason) if id in world.starting:
            world.happen(StartFailed(id, reason), jitter)
        case ("exits", id, reason) if id in world.running:
            world.happen(Exited(id, world.running[id], reason), jitter)
        case ("cell dies", cell):
            for id, pid in list(world.running.items()):
                if world.running.get(id) == pid:
                    world.happen(Exited(id, pid, "crash", f"{cell} at {world.now_s}"), jitter)
        case ("timer fires", id) if id in world.timers:
            world.timers.remove(id)
            world.happen(RestartDue(id), jitter)
        case RestartDue(id) if id in world.timers:
            pass  # a timer that fires is the action above; this one stands for those that come too late
        case Start(id) | Add(ChildSpec(id)):
            world.asked[id] = world.now_s
            world.happen(action, jitter)
        case tuple():
            pass
        case _:
            world.happen(action, jitter)


def _of_template(template: ChildSpec, action: Action) -> Action:
    return Add(replace(template, id=action.spec.id)) if isinstance(action, Add) else action


def play(flags: Flags, family: Sequence[ChildSpec], history: History) -> World:
    """``family`` runs when ``history`` begins."""
    world = World(flags)
    if flags.template is not None:
        family = [replace(flags.template, id=spec.id) for spec in family]
        history = [
            (_of_template(flags.template, action), pause_s, jitter) for action, pause_s, jitter in history
        ]
    for spec in family:
        world.happen(Add(spec))
        act(world, ("starts", spec.id), 0)
    for action, pause_s, jitter in history:
        world.now_s += pause_s
        act(world, action, jitter)
    return world


@settings(max_examples=400, deadline=None)
@given(flag_sets | dynamic, families, histories)
def test_every_effect_keeps_the_rules_whatever_happens(
    flags: Flags, family: list[ChildSpec], history: History
) -> None:
    play(flags, family, history)


@settings(max_examples=200, deadline=None)
@given(flag_sets | groups | dynamic, families, histories)
def test_a_shutdown_always_comes_to_its_end(flags: Flags, family: list[ChildSpec], history: History) -> None:
    world = play(flags, family, history)
    world.happen(Shutdown())
    for id in world.alive():
        world.happen(Exited(id, world.running.get(id, 0), "killed"))
    assert world.given_up and world.sup.ended


@settings(max_examples=600, deadline=None)
@given(groups | flag_sets | dynamic, group_families, histories)
def test_when_nothing_befalls_it_any_more_all_that_is_wanted_runs_and_nothing_else(
    flags: Flags, family: tuple[ChildSpec, ...], history: History
) -> None:
    world = play(flags, family, history)
    while world.starting or world.timers or world.stopping & world.alive():
        for id in sorted(world.stopping & world.alive()):
            world.happen(Exited(id, world.running.get(id, 0), "shutdown"))
        for id in sorted(world.starting):
            act(world, ("starts", id), 0)
        for id in sorted(world.timers):
            act(world, ("timer fires", id), 0)
    wanted = {id for id, slot in world.slots.items() if slot in (SlotState.RUNNING, SlotState.RESTARTING)}
    assert set(world.running) == (set() if world.sup.closing else wanted)
    assert world.sup.group is None and bool(world.sup.closing) is world.given_up


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=40))
def test_children_that_were_stopped_or_parked_start_only_when_asked(moves: list[tuple[int, bool]]) -> None:
    """Every way out of a stopped or parked slot but Start is shut, however often it is tried."""
    world = World(Flags(intensity=0, on_exceed="park"))
    world.happen(Add(ChildSpec("stopped")))
    world.happen(Add(ChildSpec("parked")))
    for id in ("stopped", "parked"):
        act(world, ("starts", id), 0)
    world.happen(Stop("stopped"))
    for id in ("stopped", "parked"):
        act(world, ("exits", id, "crash"), 0)
    tries: list[Callable[[str], Event]] = [
        lambda id: Exited(id, 1, "crash"),
        lambda id: StartFailed(id, "crash"),
        lambda id: Started(id, 9),
        RestartDue,
    ]
    for which, first in moves:
        world.happen(tries[which]("stopped" if first else "parked"))
    assert world.slots == {"stopped": SlotState.STOPPED, "parked": SlotState.PARKED}
    assert not world.alive()


@pytest.mark.parametrize(
    "flags",
    [
        Flags(intensity=2, on_exceed="park"),
        *(flags_of(strategy, intensity=2) for strategy in STRATEGIES),
    ],
)
def test_the_world_itself_sees_restarts(flags: Flags) -> None:
    """Guards the properties against holding because nothing ever happens."""
    world = World(flags)
    world.happen(Add(ChildSpec("a")))
    for _ in range(2):
        act(world, ("starts", "a"), 0)
        act(world, ("exits", "a", "crash"), 0)
        act(world, ("timer fires", "a"), 0)
    assert len(world.restarts) == 2
