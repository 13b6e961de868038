from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest
from typer.main import get_command

from tests.places import ROOT
from tools import machine_docs
from tools.ledger_kinds import TARGET, render
from weftos.cli.app import app

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def requirements() -> set[str]:
    stated = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]]
    return {match[0] for match in (re.match(r"[\w-]+", line) for line in stated) if match}


def test_the_page_of_machines_is_what_the_tables_say() -> None:
    assert machine_docs.TARGET.read_text() == machine_docs.render(), "stale: run python -m tools.machine_docs"


def test_the_page_of_ledger_kinds_is_what_the_code_says() -> None:
    assert TARGET.read_text() == render(), "stale: run python -m tools.ledger_kinds"


def test_every_direct_dependency_has_its_reason_and_licence() -> None:
    rows = [line.split("|") for line in (ROOT / "docs" / "dependencies.md").read_text().splitlines()]
    explained = {cells[1].strip() for cells in rows if len(cells) > 5} - {"package", "---"}
    assert explained == requirements()


def test_every_requirement_is_pinned_with_hashes_and_no_place_to_fetch_from_is_named() -> None:
    text = (ROOT / "constraints.txt").read_text()
    blocks = re.split(r"^(?=[a-z])", text, flags=re.MULTILINE)[1:]
    pinned = {block.split("==")[0] for block in blocks}
    assert requirements() <= pinned
    assert all(
        re.match(r"[\w.-]+==[^ ]+ \\\n( +--hash=sha256:[0-9a-f]{64}( \\)?\n)+", block) for block in blocks
    )
    assert not re.search(r"://|--index|--find-links|--trusted|@", text)


@pytest.mark.parametrize(
    "page",
    sorted(path.relative_to(ROOT) for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]),
    ids=str,
)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", (ROOT / page).read_text()):
        assert "://" in target or (ROOT / page).parent.joinpath(target).exists(), target


def command_lines(page: str) -> list[list[str]]:
    lines = (ROOT / page).read_text().splitlines()
    typed = [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("    weftos ")]
    return [words[: words.index(">")] if ">" in words else words for words in typed]


def parse(words: list[str]) -> None:
    """Parse as the program would, without running. Raises its usage error."""
    context = get_command(app).make_context("weftos", list(words))
    while hasattr(context.command, "resolve_command"):
        rest = [*context._protected_args, *context.args]
        name, command, rest = context.command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)


@pytest.mark.parametrize("words", command_lines("README.md") + command_lines("docs/audit.md"), ids=" ".join)
def test_every_command_line_of_these_pages_is_one_that_the_program_takes(words: list[str]) -> None:
    parse(words)


@pytest.mark.parametrize(
    "words", [["spawnx", "a"], ["spawn", "a", "--toolz", "b"], ["chain", "logs"], ["send", "a"]]
)
def test_a_command_line_that_the_program_does_not_take_would_be_noticed(words: list[str]) -> None:
    with pytest.raises(Exception, match=r"(?i)no such|missing"):
        parse(words)


@pytest.mark.parametrize("target", sorted(set(re.findall(r"make (\w+)", (ROOT / "README.md").read_text()))))
def test_every_target_that_the_readme_names_exists(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
