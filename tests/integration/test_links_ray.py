"""Links and monitors on a node whose cells are actors of a real Ray; ``make prove PART=slow`` runs them."""

from __future__ import annotations

import pytest

from tests.integration.live_node import LiveNode
from tests.integration.test_links import (
    test_a_link_binds_both_when_both_have_asked_and_is_one,
    test_a_linked_one_ends_with_the_other_and_one_that_traps_is_told,
    test_after_an_unlink_no_exit_comes,
    test_an_end_in_order_takes_nobody_along,
    test_each_monitor_is_told_exactly_once,
    test_no_pid_is_given_twice,
    test_what_is_not_there_is_noproc_at_once,
    test_with_flush_an_end_that_waits_in_the_mailbox_is_never_told,
)

__all__ = [
    "test_a_link_binds_both_when_both_have_asked_and_is_one",
    "test_a_linked_one_ends_with_the_other_and_one_that_traps_is_told",
    "test_after_an_unlink_no_exit_comes",
    "test_an_end_in_order_takes_nobody_along",
    "test_each_monitor_is_told_exactly_once",
    "test_no_pid_is_given_twice",
    "test_what_is_not_there_is_noproc_at_once",
    "test_with_flush_an_end_that_waits_in_the_mailbox_is_never_told",
]
pytestmark = [pytest.mark.ray, pytest.mark.slow]


@pytest.fixture
def node(ray_node: LiveNode) -> LiveNode:
    return ray_node
