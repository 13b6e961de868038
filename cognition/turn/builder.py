"""Stages are put together, and everything that is wrong with it is said at once, before a turn begins.

A builder is immutable: each change makes another one. It starts from a table of stages (:mod:`cognition.stages.table`);
what a user adds is a stage like any other.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cognition.errors import ConfigurationError
from cognition.turn.pipeline import CLASSIFY, Pipeline
from cognition.turn.stage import Stage, StageSpec, Wrap


class PipelineError(ConfigurationError):
    """Stages do not fit together. The message names every fault."""


@dataclass(frozen=True, slots=True)
class PipelineBuilder:
    """``stages`` in the order in which they run. ``known``: every name that means something, and ``aliases`` what else
    such a stage is called. ``required``: without these there is no pipeline.
    """

    stages: tuple[StageSpec, ...]
    known: Mapping[str, StageSpec]
    aliases: Mapping[str, str] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    faults: tuple[str, ...] = ()
    by_task: Mapping[str, PipelineBuilder] = field(default_factory=dict)

    @classmethod
    def of(
        cls, table: Sequence[StageSpec], aliases: Mapping[str, str], required: frozenset[str]
    ) -> PipelineBuilder:
        """All stages of a table, in its order."""
        return cls(tuple(table), {stage.name: stage for stage in table}, aliases, required)

    def bound(self, runs: Mapping[str, Stage], wraps: Mapping[str, Wrap]) -> PipelineBuilder:
        """With the code of each stage, and what some put around another."""
        known = {
            name: replace(stage, run=runs[name], wrap=wraps.get(name)) for name, stage in self.known.items()
        }
        by_task = {task_type: stages.bound(runs, wraps) for task_type, stages in self.by_task.items()}
        stages = tuple(known[stage.name] for stage in self.stages)
        return replace(self, stages=stages, known=known, by_task=by_task)

    def listed(self, names: Sequence[str]) -> PipelineBuilder:
        """These stages and no others, in this order. A name may be an alias."""
        found = [self.known.get(self._named(name)) for name in names]
        unknown = [self._unknown(name) for name, spec in zip(names, found, strict=True) if spec is None]
        return replace(self._with(*unknown), stages=tuple(spec for spec in found if spec is not None))

    def without(self, names: Sequence[str]) -> PipelineBuilder:
        """The same stages but for these, each of which must be one that may be left out."""
        meant = [self._named(name) for name in names]
        faults = [self._unknown(name) for name in names if self._named(name) not in self.known]
        faults += [
            f"{name} cannot be skipped"
            for name in meant
            if name in self.known and not self.known[name].skippable
        ]
        left = tuple(stage for stage in self.stages if stage.name not in meant)
        return replace(self._with(*faults), stages=left)

    def insert_before(self, name: str, stage: StageSpec) -> PipelineBuilder:
        """With another stage right before the one of that name."""
        return self._insert(name, stage, 0)

    def insert_after(self, name: str, stage: StageSpec) -> PipelineBuilder:
        """With another stage right behind the one of that name."""
        return self._insert(name, stage, 1)

    def replaced(self, name: str, run: Stage) -> PipelineBuilder:
        """With ``run`` in the place of the stage of that name, which keeps what else is known of it."""
        name = self._named(name)
        if not any(stage.name == name for stage in self.stages):
            return self._with(self._not_there(name, "replaced"))
        changed = (replace(stage, run=run) if stage.name == name else stage for stage in self.stages)
        return replace(self, stages=tuple(changed))

    def ordered(self, names: Sequence[str]) -> PipelineBuilder:
        """The same stages in this order, which names each of them."""
        meant = [self._named(name) for name in names]
        here = {stage.name: stage for stage in self.stages}
        if sorted(meant) != sorted(here):
            return self._with(f"the order names {_list(meant)}, but the stages are {_list(here)}")
        return replace(self, stages=tuple(here[name] for name in meant))

    def for_task(self, task_type: str, stages: PipelineBuilder) -> PipelineBuilder:
        """With other stages behind ``classify`` for a type of task: those of ``stages`` that come behind its own."""
        return replace(self, by_task={**self.by_task, task_type: stages})

    def knowing(self, task_types: Sequence[str]) -> PipelineBuilder:
        """The same, where no task has another type than these."""
        return self._with(
            *(
                f"for {name[:64]!r}: no task has this type; they are {_list(task_types)}"
                for name in self.by_task
                if name not in task_types
            )
        )

    def build(self) -> Pipeline:
        """The pipeline. Raises :class:`PipelineError` that names every fault."""
        faults = [*self.faults, *_faults(self.stages, self.required)]
        names = [stage.name for stage in self.stages]
        if self.by_task and CLASSIFY not in names:
            faults.append(f"{_list(self.by_task)}: no task has a type without the stage {CLASSIFY}")
        rest = {}
        for task_type, builder in self.by_task.items():
            before = self.stages[: names.index(CLASSIFY) + 1] if CLASSIFY in names else ()
            own = tuple(stage for stage in builder.stages if stage.name not in {each.name for each in before})
            told = [*builder.faults, *_faults((*before, *own), self.required)]
            faults += [f"for {task_type}: {fault}" for fault in told if fault not in faults]
            rest[task_type] = _wrapped(own)
        if faults:
            raise PipelineError("pipeline: " + "; ".join(dict.fromkeys(faults)))
        return Pipeline(_wrapped(self.stages), rest)

    def _insert(self, name: str, stage: StageSpec, offset: int) -> PipelineBuilder:
        name = self._named(name)
        places = [place for place, each in enumerate(self.stages) if each.name == name]
        if not places:
            return self._with(self._not_there(name, f"the place of {stage.name}"))
        at = places[0] + offset
        stages = (*self.stages[:at], stage, *self.stages[at:])
        return replace(self, stages=stages, known={**self.known, stage.name: stage})

    def _with(self, *faults: str) -> PipelineBuilder:
        return replace(self, faults=(*self.faults, *faults)) if faults else self

    def _named(self, name: str) -> str:
        return self.aliases.get(name, name)

    def _unknown(self, name: str) -> str:
        names = [*self.known, *self.aliases]
        near = difflib.get_close_matches(name[:64], names, n=1, cutoff=0.5)
        advice = f"the nearest is {near[0]}" if near else f"known are {_list(names)}"
        return f"there is no stage {name[:64]!r}; {advice}"

    def _not_there(self, name: str, what: str) -> str:
        if name not in self.known:
            return self._unknown(name)
        return f"{name} is not among the stages ({what})"


def _faults(stages: Sequence[StageSpec], required: frozenset[str]) -> Iterator[str]:
    """What is wrong with a list of stages: twice there, missing, or in the wrong order."""
    names = [stage.name for stage in stages]
    yield from (f"{name} is there twice" for name in dict.fromkeys(names) if names.count(name) > 1)
    yield from (f"{name} is missing" for name in sorted(required - set(names)))
    for place, stage in enumerate(stages):
        for name in sorted(stage.needs - set(names)):
            yield f"{stage.name} needs {name}, which is not there"
        for name in sorted(stage.after & set(names[place + 1 :])):
            yield f"{stage.name} stands before {name} and must stand behind it"


def _wrapped(stages: tuple[StageSpec, ...]) -> tuple[StageSpec, ...]:
    """Each stage inside of those that wrap it, the last of them outermost."""
    made = []
    for stage in stages:
        run = stage.run
        for other in stages:
            if other.wrap is not None and other.wraps == stage.name:
                run = other.wrap(run)
        made.append(stage if run is stage.run else replace(stage, run=run))
    return tuple(made)


def _list(names: Mapping[str, object] | Sequence[str]) -> str:
    return ", ".join(names)
