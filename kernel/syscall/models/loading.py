"""The one tool that a question may offer and nobody runs: whoever asks the model answers the call itself, by offering
more tools with his next question. What is offered then is held to rights as ever.
"""

from __future__ import annotations

from kernel.abi import ToolDeclaration
from kernel.toolbox.parameters import a_text, an_object

LOADING = ToolDeclaration(
    name="load_tools",
    description="Have tools offered, by their groups. Their calls are possible from your next answer on.",
    parameters=an_object(
        {"groups": {"type": "array", "items": a_text("A group.", 1, 64), "minItems": 1, "maxItems": 100}},
        ["groups"],
    ),
    effects="none",
    sandbox="node",
    network=(),
)
