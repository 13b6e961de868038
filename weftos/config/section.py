"""What the tables of a configuration file have in common."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict


def matches(pattern: re.Pattern[str], words: str) -> AfterValidator:
    """The whole of a text has to match; ``words`` say what it must be."""

    def check(text: str) -> str:
        if not pattern.fullmatch(text):
            raise ValueError(words)
        return text

    return AfterValidator(check)


Name = Annotated[
    str, matches(re.compile(r"[a-zA-Z0-9_-]{1,64}"), "a name is 1 to 64 letters, digits, _ or -")
]


class Section(BaseModel):
    """A table of the file. Unknown keys are found, with better words, before pydantic sees them."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, hide_input_in_errors=True, validate_by_name=True
    )
