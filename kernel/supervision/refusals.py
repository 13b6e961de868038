"""What a supervisor refuses, with the word that Erlang/OTP's has for it."""

from __future__ import annotations

from kernel.errors import SupervisionError, SupervisionWord
from kernel.supervision.specs import ChildSpec, Flags
from kernel.supervision.strategies import is_dynamic
from kernel.supervision.supervisor import Supervisor


def refuse(word: SupervisionWord, what: str, faults: list[str]) -> None:
    """Raises SupervisionError when there are faults."""
    if faults:
        raise SupervisionError(word, f"{what}: {'; '.join(faults)}")


def check_child(flags: Flags, spec: ChildSpec) -> None:
    """Raises SupervisionError ``bad_spec``, ``bad_combination``."""
    if faults := spec.check():
        refuse("bad_spec", f"child {spec.id!r}", faults)
    if faults := flags.against(spec):
        refuse("bad_combination", f"child {spec.id!r}", faults)


def refuse_dynamic(sup: Supervisor) -> None:
    """Raises SupervisionError for what children of a template cannot be asked for."""
    if is_dynamic(sup):
        raise SupervisionError(
            "simple_one_for_one",
            "its supervisor makes children of a template: they run or are gone; spawn another one",
        )


def refuse_closing(sup: Supervisor) -> None:
    """Raises SupervisionError for a supervisor that is ending."""
    if sup.closing is not None:
        raise is_closing(sup)


def is_closing(sup: Supervisor) -> SupervisionError:
    """What is said of one."""
    return SupervisionError("shutdown", f"the supervisor is ending ({sup.closing}): try again later")
