"""Doors cannot be kept shut: a true cell gets in while somebody holds every place there is, and takes it again."""

from __future__ import annotations

import asyncio

import pytest

from tests.kernel.cells.test_cell_acceptor import Case as LocalCase
from tests.kernel.cells.test_cell_acceptor import with_node
from tests.kernel.cells.test_cell_remote import Case, with_door
from tests.kernel.twins.cell_node import placement
from tests.mesh.twins.flood import flood

PLACES, SHARE = 8, 4


@pytest.mark.parametrize(
    ("source", "many", "places", "share"),
    [("127.0.0.2", 3 * PLACES, PLACES, SHARE), ("127.0.0.1", 65, 256, 64)],
    ids=["another address", "the cell's own address"],
)
def test_a_remote_cell_gets_in_under_flood(source: str, many: int, places: int, share: int) -> None:
    async def body(case: Case) -> None:
        host, port = case._dial["host"], case._dial["port"]
        async with flood(lambda: asyncio.open_connection(host, port, local_addr=(source, 0)), many):
            cell = await case.cell(await case.token())
            case.cells.place(placement(1, "Echo"))
            assert (await cell.hear())[:2] == ["start", 1]

    with_door(body, visitors=places, visitors_per_address=share, hello_s=60.0)


def test_a_cell_of_this_machine_gets_in_though_another_process_floods_the_socket() -> None:
    async def body(case: LocalCase) -> None:
        async with flood(lambda: asyncio.open_unix_connection(case.socket_path), 3 * PLACES):
            await case.running(1, await case.cell())

    with_node(body, visitors=PLACES, visitors_per_address=SHARE, hello_s=60.0)
