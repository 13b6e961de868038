"""The docs that are made from the table of operations, and whatever spawns held to the one declaration of it."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any, get_args, get_type_hints

import jsonschema_rs
import pytest

from kernel.control.nodes.cluster import told_to_peer
from kernel.control.nodes.peer_services import READERS, read_spawn
from kernel.model.spec import ProcessSpec
from kernel.operations.mailboxes import Mailbox
from kernel.operations.operation import AnyRow
from kernel.operations.rights.capabilities import Capabilities
from kernel.operations.spawning import (
    NOT_FOR_PEERS,
    OF_A_BEHAVIOUR,
    TEMPLATE,
    Isolation,
    OnLogical,
    Restart,
    SpawnRequest,
)
from kernel.operations.table import TABLE
from kernel.toolbox.registry import builtin_declarations
from tools.operations_docs import DOCS, openapi, page
from weftos.api.openapi import document
from weftos.cli.agents.processes import spawn

DEFAULTS = {field.name: field.default for field in fields(SpawnRequest)}


def test_the_openapi_file_is_what_the_table_says() -> None:
    assert (DOCS / "openapi.json").read_text() == openapi(), "stale: run python -m tools.operations_docs"


def test_the_page_of_operations_is_what_the_table_says() -> None:
    assert (DOCS / "operations.md").read_text() == page(), "stale: run python -m tools.operations_docs"


def test_the_document_refers_to_nothing_that_it_does_not_have() -> None:
    jsonschema_rs.validator_for(
        {"$ref": "#/components/schemas/Status", "components": document()["components"]}
    )
    assert len(document()["paths"]) == len({row.path for row in TABLE})


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_every_answer_of_the_document_is_a_schema(row: AnyRow) -> None:
    found = document()
    operation = found["paths"][f"/v1{row.at(lambda name: f'{{{name}}}')}"][row.method.lower()]
    [answer] = operation["responses"]["200"]["content"].values()
    jsonschema_rs.validator_for({**answer["schema"], "components": found["components"]})


def test_the_command_offers_every_field_of_a_spawn_with_its_default() -> None:
    options = inspect.signature(spawn).parameters
    assert set(options) - {"data", "as_json", "count"} == set(DEFAULTS)
    told = {name: option.default for name, option in options.items() if name in DEFAULTS and name != "name"}
    assert told == {name: default for name, default in DEFAULTS.items() if name != "name"}
    hints, wanted = get_type_hints(spawn), get_type_hints(SpawnRequest)
    assert {name: hints[name] for name in ("restart", "isolation")} == {
        name: wanted[name] for name in ("restart", "isolation")
    }


def test_a_peer_may_say_every_field_but_those_that_are_not_for_it() -> None:
    assert set(READERS) == set(DEFAULTS) - set(NOT_FOR_PEERS)


def test_a_peer_of_a_version_without_a_field_is_told_of_it_only_when_it_says_something() -> None:
    assert set(told_to_peer(SpawnRequest("ada"))) == {"name", "behaviour", "under", "restart"}
    team = SpawnRequest("team", supervisor=True, intensity=(3, 9.0), strategy="one_for_all")
    assert read_spawn(told_to_peer(team)) == team
    pool = SpawnRequest(
        "pool",
        supervisor=True,
        strategy=TEMPLATE,
        shutdown_s="infinity",
        child_restart="transient",
        child_shutdown_s=0.0,
    )
    assert read_spawn(told_to_peer(pool)) == pool
    never = SpawnRequest("never", system_prompt="never", auto_shutdown="never")  # text that a choice has too
    assert read_spawn(told_to_peer(never)) == never
    held = SpawnRequest(
        "held", tools=("file_*",), capabilities=Capabilities(deny=("pay",), memory=(), spawn=False)
    )
    assert read_spawn(told_to_peer(held)) == held
    leader = SpawnRequest("leader", restart="transient", significant=True, shutdown_s=2.5, on_logical="end")
    timed = SpawnRequest("timed", turn_timeout_s=7.5)
    assert read_spawn(told_to_peer(timed)) == timed
    small = SpawnRequest("small", mailbox=Mailbox(messages=3, overflow="dead_letter"))
    assert read_spawn(told_to_peer(small)) == small
    assert read_spawn(told_to_peer(leader)) == leader


def test_the_tool_takes_fields_of_a_spawn_with_their_choices() -> None:
    [tool] = [declared for declared in builtin_declarations() if declared.name == "spawn_agent"]
    taken: dict[str, Any] = tool.parameters["properties"]
    assert set(taken) < set(DEFAULTS)
    assert tuple(taken["restart"]["enum"]) == get_args(Restart)
    assert tuple(taken["on_logical"]["enum"]) == get_args(OnLogical)


def test_a_child_is_kept_with_the_fields_of_a_spawn_and_their_types() -> None:
    kept, wanted = get_type_hints(ProcessSpec), get_type_hints(SpawnRequest)
    assert set(kept) - {"type", "config", "template", "session"} <= set(wanted)
    assert (kept["restart"], kept["isolation"]) == (Restart, Isolation)
    assert set(OF_A_BEHAVIOUR) < set(DEFAULTS)
