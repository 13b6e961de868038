"""The session in which a process speaks to another one: of one life of its address, and of those for whom it acts.

``ADDRESS#SPAWNED``, and ``~ORIGIN`` for each other node that its turn came of, the nearest last. An address is given
again when its process was removed, the number of the entry that made its slot is not. What a process says in a turn
that came of another node's message is not told in the conversation that it has for this node's operator, nor the
other way. No such name holds an ``@``, with which the receiver of a message from another node ends its session.

Of the nodes before the nearest one that one's word is taken for the last of them, when this node knows it, else for
there having been one (``*``): so a peer can make up no more sessions for others to keep than there are peers.
"""

from __future__ import annotations

from collections.abc import Callable

from kernel.slices.mailboxes import Mail
from kernel.slices.tree.slots import Slot
from mesh.identity.peers import is_origin

MOST_NODES = 2
ANOTHER = "*"
MAX_ADDRESS_CHARS = 800  # so that all of it is within what a message between nodes may have


def session_name(slot: Slot, mail: Mail, here: str, there: str, knows: Callable[[str], bool]) -> str:
    """That of ``slot`` in the turn that handles ``mail``. ``here`` and ``there``: the origins of this node, and of the
    one where the other process is: for that one nobody has to be kept apart from itself. ``knows``: whether an origin
    is that of a peer.
    """
    if "@" not in mail.sender and "~" not in mail.session:  # of no other node, as nearly all are
        return f"{slot.address[:MAX_ADDRESS_CHARS]}#{slot.spawned_seq}"
    nodes = [
        node for node in _came_of(mail, lambda node: node == here or knows(node)) if node not in (here, there)
    ]
    newest = dict.fromkeys(reversed(nodes))
    of = "".join(f"~{node}" for node in reversed(list(newest)[:MOST_NODES]))
    return f"{slot.address[:MAX_ADDRESS_CHARS]}#{slot.spawned_seq}{of}"


def _came_of(mail: Mail, knows: Callable[[str], bool]) -> list[str]:
    """The nodes that a message came of, the one that is proved last: what is before that is its word."""
    _, abroad, origin = mail.sender.rpartition("@")
    if not abroad and not mail.sender.startswith("/"):
        return []  # a person names sessions at will
    told = mail.session.rpartition("@")[0] if abroad else mail.session
    nodes = [node for node in told.split("~")[1:] if is_origin(node) or node == ANOTHER]
    return [*(node if knows(node) else ANOTHER for node in nodes[-1:]), origin] if abroad else nodes
