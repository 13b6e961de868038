"""An answer that is spoken has no marks that are made to be seen, and all of its words."""

from __future__ import annotations

import pytest

from cognition.execution.spoken import spoken


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Plain words.", "Plain words."),
        ("# Result\nIt is **done**.", "Result. It is done."),
        ("1. First\n- second!\n* third", "First. second! third."),
        ("| name | size |\n|---|--:|\n| a | 3 |", "name, size. a, 3."),
        ("See [the page](http://x.y/z) and <https://a.b>.", "See the page and https://a.b."),
        ("```python\nprint(1)\n```", "print(1)"),
        ("> quoted `code` and ***both***", "quoted code and both"),
        ("2*3*4 and snake_case and a_b_c", "2*3*4 and snake_case and a_b_c"),
        ("One.\n\n---\n\nTwo.", "One.\n\nTwo."),
        ("Кот *ест* рыбу", "Кот ест рыбу"),
        ("---", "---"),
        ("", ""),
    ],
)
def test_marks_go_and_words_stay(text: str, said: str) -> None:
    assert spoken(text) == said


def test_what_is_spoken_is_spoken_again_as_it_is() -> None:
    once = spoken("# A\n\n- **b** `c`\n\n| d | e |\n|--|--|\n| f | g |")
    assert spoken(once) == once
