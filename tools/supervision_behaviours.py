"""OTP's behaviours, and what there is of links and monitors: what each says, where we differ, and tests beside those
whose names have its number.
"""

from __future__ import annotations

from typing import NamedTuple


class Behaviour(NamedTuple):
    """``tests`` are those whose names do not begin with its number: file and name. ``alone``: why some substrate has
    none.
    """

    says: str
    deviation: str = ""
    tests: tuple[str, ...] = ()
    alone: str = ""


_NO_IGNORE = "a behaviour cannot answer *ignore*; one that ends at once with `normal` is the like of it"
_TRANSIENT = _NO_IGNORE + ", when it is transient"
_NO_CAUSE = "nothing that a process of a node does gives its `shutdown` a cause"
_NODE_LOST = "that a node is killed is tested with the local engine"
_NO_INIT = "a supervisor is data and has no code of its own that could fail; its flags are checked"

BEHAVIOURS: dict[int, Behaviour] = {
    1: Behaviour("Starts without children; ends with `shutdown` when that is asked for from outside"),
    2: Behaviour("Does not start when its init says *ignore*", _NO_INIT, ("test_supervision::test_sup_start_normal",),
        "there is nothing of the kind to run"),
    3: Behaviour("A child that has nothing to do is kept as a spec without a PID", _TRANSIENT),
    4: Behaviour("A temporary one is not kept, in the list that a supervisor begins with", _NO_IGNORE),
    5: Behaviour("Nor when it is started later", _NO_IGNORE),
    6: Behaviour("Nor below `simple_one_for_one`", _NO_IGNORE),
    7: Behaviour("Nor is a permanent one there, and the end of the whole is clean", _TRANSIENT),
    8: Behaviour("Init that returns rubbish is an error", _NO_INIT, ("test_supervision::test_sup_flags_each_fault",)),
    9: Behaviour("Init that raises is an error", _NO_INIT, ("test_supervision::test_sup_flags_each_fault",)),
    10: Behaviour("A child that does not start is an error to who asked, and nothing of it is kept"),
    11: Behaviour("A restart by name that fails is an error, and the spec stays without a PID"),
    12: Behaviour("As 10, below `simple_one_for_one`"),
    13: Behaviour("A spec that says little gets the defaults; an unknown child is `not_found`",
        "5 restarts in 60 s and not 1 in 5 s; permanent, 5 s and infinity as in OTP"),
    14: Behaviour("The spec of a child below `simple_one_for_one` by its PID",
        "a PID is resolved to the address where it is asked for, so for every strategy",
        ("tests/kernel/control/test_control.py::test_what_is_spawned_below_a_template",)),
    15: Behaviour("Faulty specs are refused, each with an error of its own",
        "unknown fields are refused and not passed over", ("test_supervision::test_child_specs_each_malformed",)),
    16: Behaviour("A name that something outside holds is refused with its PID",
        "a name is taken below one supervisor alone, so nothing outside can hold it"),
    17: Behaviour("A child of the first list that fails undoes the start of all",
        "it counts as one that fails to restart, is tried again after a back-off, and ends the supervisor when that is "
        "too often: after a boot what can run does"),
    18: Behaviour("Workers may have for ever to end"),
    19: Behaviour("A child that does not end in time is killed, one that does ends with `shutdown`"),
    20: Behaviour("The same for many dynamic children, whose time passes for all together"),
    21: Behaviour("A time of 0 kills at once"),
    22: Behaviour("The same for ten dynamic children"),
    23: Behaviour("Children that end by themselves while it ends are not restarted, and their reasons are told"),
    24: Behaviour("The same for dynamic children"),
    25: Behaviour("Children start in their order, and end in the reverse of it",
        "without `one_for_all` or `rest_for_one` a supervisor that comes back starts all at once"),
    26: Behaviour("The end of dynamic children takes as long as the longest, and no longer than their time",
        alone="how long it takes is seen under a clock that is wound by hand; on a machine it would be a race"),
    27: Behaviour("Start, end, restart and removal of children by name, with an error for each state",
        "beside OTP's word (`word` of the error) is a code for all errors: `conflict`, `refused`, `not_found`",
        ("test_supervision::test_child_adm",)),
    28: Behaviour("To end a child by its PID is for `simple_one_for_one` alone",
        "a PID is resolved to the address where it is asked for, so it is for all",
        ("tests/kernel/control/test_control.py::test_28_",)),
    29: Behaviour("Below `simple_one_for_one` children are ended, and neither restarted nor removed",
        "to end one that is gone is `not_found`, since its name is free"),
    30: Behaviour("What a start returns besides its PID reaches who asked", "a start returns its PID alone",
        ("tests/kernel/control/test_control.py::test_what_is_spawned_below_a_template",)),
    31: Behaviour("Each malformed field of a spec has an error of its own; ids are unique",
        tests=("test_supervision::test_child_specs_",)),
    32: Behaviour("The same for maps; significant and permanent, or below `never`, is refused",
        tests=("test_significant_children::test_65_significant_simple_and_faulty",)),
    33: Behaviour("Each faulty flag has an error of its own", "unknown flags are refused and not passed over",
        ("test_supervision::test_sup_flags_",)),
    34: Behaviour("`simple_one_for_one` has exactly one spec"),
    35: Behaviour("The children with their states: stopped without a PID, or restarting between two attempts",
        "the oldest first; `weftos children`",
        ("test_supervision::test_which_children", "tests/kernel/control/test_control.py::test_35_36_")),
    36: Behaviour("The counts of children are right, also of many",
        tests=("test_supervision::test_count_children", "tests/kernel/control/test_control.py::test_35_36_")),
    37: Behaviour("The same for children that are supervisors"),
    38: Behaviour("A child that fails again and again counts as a worker and not as active"),
    39: Behaviour("The callback module of a supervisor", "it has none; `inspect` shows its spec",
        ("tests/kernel/control/test_control.py::test_what_is_spawned_below_a_template",)),
    40: Behaviour("A permanent child is restarted after `normal`"),
    41: Behaviour("after `shutdown`, with or without a cause", _NO_CAUSE),
    42: Behaviour("and after any other end"),
    43: Behaviour("A transient child is not restarted after `normal`; its spec is kept"),
    44: Behaviour("Nor after `shutdown`, with or without a cause", _NO_CAUSE),
    45: Behaviour("It is after any other end"),
    46: Behaviour("A temporary child is never restarted, and gone at once"),
    47: Behaviour("A temporary child that a restart of several stops is gone, and hinders nothing"),
    48: Behaviour("What a temporary child was started with is not kept",
        "it is kept while the child runs, since `inspect` and the ledger show it, and not behind its end",
        alone="what the node holds is not seen from outside"),
    49: Behaviour("The name of a temporary child is free after any end; that of another is not"),
    50: Behaviour("Restarts that lie further back than the period are forgotten"),
    51: Behaviour("`one_for_one`: one child alone; one restart too many ends all and the supervisor"),
    52: Behaviour("Starts that fail count, and lead to the end"),
    53: Behaviour("`one_for_all`: all children; then as 51"),
    54: Behaviour("The same as 52 for `one_for_all`"),
    55: Behaviour("A restart of all in which one does not start begins anew"),
    56: Behaviour("`rest_for_one`: the child and those behind it; then as 51"),
    57: Behaviour("The same as 52 for `rest_for_one`"),
    58: Behaviour("A restart of the rest in which one does not start goes on from that one"),
    59: Behaviour("`simple_one_for_one`: each by itself, with its own arguments; the intensity is that of all",
        "no child answers *ignore* at a restart", ("test_supervision_properties::test_every_effect",)),
    60: Behaviour("In a tree the dead worker alone restarts; of a supervisor that gives up, the one above decides",
        "what was added later comes back too, and what was stopped stays so (ADR 30)"),
    61: Behaviour("A supervisor answers while a restart hangs or fails again and again"),
    62: Behaviour("A child that cuts its link cannot hang the supervisor",
        "there is no link that a child could cut: its end is what the node declares"),
    63: Behaviour("A supervisor or worker that is killed is back under its name",
        "in how short a time is measured by benchmarks and not by tests"),
    64: Behaviour("Significant children end the supervisor by their own end: any of them, or the last"),
    65: Behaviour("Not as bystanders; a significant supervisor ends the one above; bad combinations are refused"),
    66: Behaviour("Flags and specs are changed while a supervisor runs",
        "one slot at a time, by `weftos change`; what was made of a template before that was changed stays so over "
        "its restarts, and what describes a behaviour is of "
        "another process. There is no code change: new code runs from the next start (ADR 36)",
        ("test_changes::test_",)),
}  # fmt: skip


class Link(NamedTuple):
    """``tests`` as in :class:`Behaviour`, in memory; ``real`` on a real node."""

    says: str
    tests: tuple[str, ...]
    real: tuple[str, ...]
    deviation: str = ""
    alone: str = ""


_TWINS, _REMOTE = "tests/kernel/syscall/test_links.py", "tests/kernel/peer/test_remote_links.py"
_DOWNS, _REAL = "tests/kernel/syscall/test_monitor_calls.py", "tests/integration/test_links.py"
_WATCHED = "tests/integration/test_monitors.py"
_ENDS, _OVER = f"{_REAL}::test_a_linked_one", f"{_REAL}::test_links_over"
_BOTH, _GONE = f"{_REAL}::test_a_link_binds_both", f"{_REAL}::test_what_is_not_there"
_KILLED = f"{_WATCHED}::test_watcher_and_watched"

LINKS: tuple[Link, ...] = (
    Link("Who is linked ends with the other, for the same reason", (f"{_TWINS}::test_who_links_itself",), (_ENDS,)),
    Link("A link is symmetric", (f"{_TWINS}::test_a_child_is_bound", f"{_TWINS}::test_a_link_kills_nobody"), (_BOTH,),
        "it binds who asks; the other when it is below, or asks too (ADR 35)"),
    Link("A link is idempotent", (f"{_TWINS}::test_who_links_back", f"{_REMOTE}::test_a_second_call"), (_BOTH,)),
    Link("`normal` takes nobody along", (f"{_TWINS}::test_an_end_in_order",),
        (f"{_REAL}::test_an_end_in_order",), "nor does `shutdown`"),
    Link("`kill` cannot be trapped, and the linked see `killed`",
        (f"{_TWINS}::test_one_that_traps_exits", f"{_TWINS}::test_who_links_itself"), (_ENDS,)),
    Link("Who traps exits is told each of them once", (f"{_TWINS}::test_one_that_traps_exits",), (_ENDS,)),
    Link("What is not there is `noproc` at once",
        (f"{_TWINS}::test_what_is_not_there", f"{_REMOTE}::test_what_is_not"), (_GONE,)),
    Link("The loss of a node is `noconnection`",
        (f"{_REMOTE}::test_a_lost_node", f"{_TWINS}::test_a_link_ends_with"), (_OVER, _KILLED), alone=_NODE_LOST),
    Link("After an unlink no exit comes", (f"{_TWINS}::test_after_an_unlink",),
        (f"{_REAL}::test_after_an_unlink",), "it takes the reference of the link"),
    Link("Each monitor is told exactly once", (f"{_DOWNS}::test_the_end_is_told_once", f"{_DOWNS}::test_each_of"),
        (_KILLED, f"{_REAL}::test_each_monitor")),
    Link("A monitor of what is not there is told `noproc` at once", (f"{_DOWNS}::test_what_is_not_there",),
        (_GONE, _KILLED)),
    Link("After `demonitor` with flush no message comes late", (f"{_DOWNS}::test_with_flush",),
        (f"{_REAL}::test_with_flush",)),
    Link("A PID is never used again", ("tests/kernel/model/test_pids.py::test_no_pid_is_given_out_twice",),
        (f"{_REAL}::test_no_pid_is_given_twice", _OVER)),
)  # fmt: skip
