"""A supervisor's flags, and the spec of a child, are changed while it runs. No child is touched.

What counts when something ends counts as it is then: intensity, strategy, restart type, what ends the whole. Restarts
that were charged stay so; those beyond a new, smaller intensity do nothing before the next failure. Of a new template
are the children that are added from then on; the others are as they were made, over their restarts too.
"""

from __future__ import annotations

from dataclasses import replace

from kernel.errors import SupervisionError
from kernel.model.states import SlotState
from kernel.supervision.refusals import check_child, refuse, refuse_closing, refuse_dynamic
from kernel.supervision.specs import ChildSpec, Flags
from kernel.supervision.strategies import combination_faults, strategy_faults
from kernel.supervision.supervisor import Phase, Result, Supervisor


def change_spec(sup: Supervisor, spec: ChildSpec) -> Result:
    """The child of that id is as ``spec`` says."""
    refuse_closing(sup)
    child = sup.child(spec.id)
    if spec == child.spec:
        return sup, ()
    refuse_dynamic(sup)
    check_child(sup.flags, spec)
    if spec.type != child.spec.type:
        refuse(
            "bad_spec", f"child {spec.id!r}", [f"it is a {child.spec.type} and cannot become a {spec.type}"]
        )
    if spec.restart == "temporary" and child.phase not in (Phase.STARTING, Phase.UP):
        restarts = child.slot is SlotState.RESTARTING
        raise SupervisionError(
            "restarting" if restarts else "already_present",
            f"child {spec.id!r} is {child.slot}, and a temporary one is kept only while it runs: start it first",
        )
    return sup.put(replace(child, spec=spec)), ()


def change_flags(sup: Supervisor, flags: Flags) -> Result:
    """The supervisor goes by ``flags`` from now on."""
    refuse_closing(sup)
    refuse("bad_flags", "flags", flags.check() + strategy_faults(flags))
    refuse("bad_combination", "flags", combination_faults(flags))
    if (flags.template is None) != (sup.flags.template is None):
        refuse("simple_one_for_one", "flags", ["whether children are made of a template stays as it is"])
    if flags.auto_shutdown == "never" and sup.flags.auto_shutdown != "never":
        named = [child.spec.id for child in sup.table.values() if child.spec.significant]
        if named:
            refuse("bad_combination", "flags", [f"auto_shutdown is never and {min(named)} significant"])
    return replace(sup, flags=flags), ()
