"""What the decorators make of a function and of a class, and what importing them loads."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest

from kernel.abi import ToolDeclaration
from kernel.toolbox.arguments import Validator
from kernel.toolbox.declaration import check_declaration
from tests.patience import HANG_S
from weftos import EffectId, Probed, behaviour, tool


def declaration_of(function: Callable[..., Any]) -> ToolDeclaration:
    declaration: ToolDeclaration = function.__weftos_tool__  # type: ignore[attr-defined]
    return declaration


@tool(effects="local", on_doubt="lost", timeout_s=5.0, confirmation=True)
def book(
    name: str,
    nights: int = 1,
    price: float | None = None,
    *,
    room: Literal["single", "double"] = "single",
    extras: list[str] | None = None,
    notes: Annotated[dict[str, int], "Counts by name."],
    anything: Any = None,
) -> str:
    """Book a room.

    In the one hotel there is.

    Args:
        name: Who comes,
            and with whom.
        nights (int): How long.

    Returns:
        name: a number
    """
    return f"{name} {nights}"


def test_a_declaration_holds_hints_defaults_docstring_and_options() -> None:
    assert declaration_of(book) == ToolDeclaration(
        name="book",
        description="Book a room.\n\nIn the one hotel there is.",
        parameters={
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "Who comes, and with whom."},
                "nights": {"type": "integer", "default": 1, "description": "How long."},
                "price": {"anyOf": [{"type": "number"}, {"type": "null"}], "default": None},
                "room": {"enum": ["single", "double"], "default": "single"},
                "extras": {
                    "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}],
                    "default": None,
                },
                "notes": {
                    "type": "object",
                    "additionalProperties": {"type": "integer"},
                    "description": "Counts by name.",
                },
                "anything": {"default": None},
            },
            "required": ["name", "notes"],
            "additionalProperties": False,
        },
        effects="local",
        on_doubt="lost",
        sandbox="thirdparty",
        timeout_s=5.0,
        confirmation=True,
    )
    assert check_declaration(declaration_of(book)) == []


def test_the_schema_accepts_what_the_function_takes() -> None:
    validator = Validator(declaration_of(book).parameters)
    validator.check({"name": "x", "notes": {}})
    validator.check({"name": "x", "notes": {"a": 1}, "price": 2.5, "extras": ["y"], "anything": [{}]})


def test_the_function_stays_what_it_was() -> None:
    assert book("Ada", notes={}) == "Ada 1"


def test_a_bare_decorator_gives_the_cautious_defaults() -> None:
    @tool
    def plain() -> str:
        """Do."""
        return ""

    declaration = declaration_of(plain)
    assert (declaration.effects, declaration.idempotent, declaration.on_doubt) == ("external", False, "ask")
    assert declaration.parameters["properties"] == {}


def find(key: EffectId) -> Probed:
    return Probed("unknown", why="nobody asked")


def transfer(amount: int, key: EffectId) -> str:
    """Transfer.

    Args:
        amount: How much.
        key: Sent on as the idempotency key.
    """
    return f"{amount} {key}"


def test_an_effect_id_is_no_argument_and_a_probe_is_declared() -> None:
    marked = tool(probe=find)(transfer)
    declaration = declaration_of(marked)
    assert (declaration.effect_parameter, declaration.probe) == ("key", True)
    assert declaration.parameters["properties"] == {"amount": {"type": "integer", "description": "How much."}}
    assert declaration.parameters["required"] == ["amount"]
    assert check_declaration(declaration) == []
    assert marked.__weftos_probe__ is find  # type: ignore[attr-defined]
    assert marked(5, EffectId("e")) == "5 e"


def both(one: EffectId, other: EffectId) -> str:
    """Do."""
    return one + other


def without(amount: int) -> str:
    """Do."""
    return str(amount)


@pytest.mark.parametrize(
    ("function", "probe", "words"),
    [
        (transfer, 5, "its probe must be a function of one EffectId"),
        (transfer, lambda: None, "its probe must be a function of one EffectId"),
        (without, find, "has a probe, and no parameter of type EffectId"),
        (both, None, "one and other are of type EffectId; a call has one"),
    ],
)
def test_a_probe_that_could_find_nothing_is_refused(
    function: Callable[..., Any], probe: Any, words: str
) -> None:
    with pytest.raises(TypeError, match=words):
        tool(probe=probe)(function)


def undescribed(text: str) -> str:
    return text


def unhinted(text) -> str:  # type: ignore[no-untyped-def]
    """Do."""
    return str(text)


def variadic(*texts: str) -> str:
    """Do."""
    return "".join(texts)


def keywords(**texts: str) -> str:
    """Do."""
    return "".join(texts)


def positional(text: str, /) -> str:
    """Do."""
    return text


def foreign(text: bytes) -> str:
    """Do."""
    return text.decode()


def keyed(text: dict[int, str]) -> str:
    """Do."""
    return str(text)


def unreadable(text: NoSuchName) -> str:  # type: ignore[name-defined]  # noqa: F821
    """Do."""
    return str(text)


def defaulted(text: Any = object()) -> str:  # noqa: B008
    """Do."""
    return str(text)


def misdescribed(text: str) -> str:
    """Do.

    Args:
        txet: A typing error.
    """
    return text


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (undescribed, "needs a docstring"),
        (unhinted, "parameter text: has no type hint"),
        (variadic, "must be an ordinary or keyword-only parameter"),
        (keywords, "must be an ordinary or keyword-only parameter"),
        (positional, "must be an ordinary or keyword-only parameter"),
        (foreign, "has no JSON Schema"),
        (keyed, "has no JSON Schema"),
        (unreadable, "a type hint cannot be read"),
        (defaulted, "is not JSON"),
        (misdescribed, "describes txet, which it does not take"),
        (str, "marks a function, not type"),
        (len, "marks a function"),
    ],
)
def test_a_function_that_cannot_be_described_is_refused_where_it_is_written(
    function: Callable[..., Any], words: str
) -> None:
    with pytest.raises(TypeError) as refusal:
        tool(function)
    assert words in str(refusal.value)


def test_a_tool_says_which_hosts_it_speaks_to() -> None:
    @tool(network=("api.example.org",))
    def fetch() -> str:
        """Fetch."""
        return ""

    assert declaration_of(fetch).network == ("api.example.org",)
    assert declaration_of(book).network == ("*",)
    with pytest.raises(TypeError, match=r"give a tuple of hosts, such as \('a.org',\)"):
        tool(network="a.org")  # type: ignore[call-overload]


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(TypeError, match="efects"):

        @tool(efects="none")  # type: ignore[call-overload, untyped-decorator]
        def plain() -> str:
            """Do."""
            return ""


def test_a_behaviour_is_marked_and_otherwise_unchanged() -> None:
    class Echo:
        def __init__(self, info: Any) -> None:
            self.info = info

        async def handle(self, message: Any, sys: Any) -> str:
            return str(message)

    assert behaviour(Echo) is Echo
    assert Echo.__weftos_behaviour__ is True  # type: ignore[attr-defined]


class NoHandle:
    def __init__(self, info: Any) -> None: ...


class SyncHandle(NoHandle):
    def handle(self, message: Any, sys: Any) -> str:
        return ""


class ShortHandle(NoHandle):
    async def handle(self, message: Any) -> str:
        return ""


class NoInit:
    async def handle(self, message: Any, sys: Any) -> str:
        return ""


class GreedyInit(NoInit):
    def __init__(self, info: Any, more: Any) -> None: ...


@pytest.mark.parametrize("cls", [NoHandle, SyncHandle, ShortHandle, NoInit, GreedyInit, undescribed])
def test_a_class_without_the_two_methods_is_refused(cls: Any) -> None:
    with pytest.raises(TypeError, match=r"async def handle|def __init__|marks a class"):
        behaviour(cls)


def test_importing_a_decorator_loads_of_ours_the_abi_alone() -> None:
    code = (
        "import sys; from weftos import tool, behaviour; "
        "print(sorted(name for name in sys.modules "
        "if name.partition('.')[0] in ('weftos', 'kernel', 'chain', 'mesh', 'cognition', 'ray', 'pydantic')))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=HANG_S, check=True
    )
    assert done.stdout.strip() == str(["kernel", "kernel.abi", "weftos", "weftos.decorators"])
