"""What the memory tools declare of themselves."""

from __future__ import annotations

from chain.vectors.document import MAX_ID_CHARACTERS, MAX_TEXT_BYTES, MAX_TITLE_BYTES
from kernel.abi import ToolDeclaration
from kernel.toolbox.parameters import a_text, an_object

MAX_QUERY_CHARACTERS = 4096
MAX_K = 50
_SEARCH_TIMEOUT_S = 30.0


def memory_declarations() -> list[ToolDeclaration]:
    """``memory_write`` runs in the node, the others are answered by the archive."""
    search = (
        "Search what this node remembers: documents that are shared, your own, and those of your supervisors. Gives a "
        "JSON list, best first; a text may be cut, memory_read gives it whole."
    )
    return [
        ToolDeclaration(
            name="memory_write",
            description=(
                "Remember a text for later turns. It is yours (and of the agents below you), or with shared for "
                "every agent of this node. Gives the id of the document."
            ),
            parameters=an_object(
                {
                    "text": a_text("What to remember.", 1, MAX_TEXT_BYTES),
                    "title": a_text("A title of a few words; the first line by default.", 0, MAX_TITLE_BYTES),
                    "shared": {"type": "boolean", "description": "False by default."},
                },
                ["text"],
            ),
            effects="local",
            sandbox="node",
        ),
        _search("memory_search", search),
        _search("knowledge_base", f"The same as memory_search. {search}"),
        ToolDeclaration(
            name="memory_read",
            description="Read one remembered document by its id. A long one comes in pieces: go on at next_offset.",
            parameters=an_object(
                {
                    "id": a_text("Its id, such as d12.", 1, MAX_ID_CHARACTERS),
                    "offset": {
                        "type": "integer",
                        "minimum": 0,
                        "maximum": MAX_TEXT_BYTES,
                        "description": "Character to begin at, 0 by default.",
                    },
                },
                ["id"],
            ),
            effects="none",
            on_doubt="retry",
            sandbox="archive",
            timeout_s=_SEARCH_TIMEOUT_S,
        ),
    ]


def _search(name: str, description: str) -> ToolDeclaration:
    return ToolDeclaration(
        name=name,
        description=description,
        parameters=an_object(
            {
                "query": a_text("Words or a sentence to look for.", 1, MAX_QUERY_CHARACTERS),
                "k": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_K,
                    "description": "How many documents at most, 5 by default.",
                },
            },
            ["query"],
        ),
        effects="none",
        on_doubt="retry",
        sandbox="archive",
        timeout_s=_SEARCH_TIMEOUT_S,
    )
