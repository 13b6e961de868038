from __future__ import annotations

import pytest
from grimp import ImportGraph

from tools.import_contracts import OnlyContract


def contract(importer: str, *allowed: str) -> OnlyContract:
    session = {"root_packages": ["a", "b"]}
    return OnlyContract("test", session, {"importer": importer, "allowed": list(allowed)})


@pytest.fixture
def graph() -> ImportGraph:
    graph = ImportGraph()
    for importer, imported in (("a.inner", "b.open"), ("a.inner", "a.other"), ("a.inner", "outside")):
        graph.add_import(
            importer=importer, imported=imported, line_number=3, line_contents=f"import {imported}"
        )
    graph.add_module("a")
    graph.add_module("b")
    return graph


def test_what_is_allowed_own_or_foreign_to_the_roots_passes(graph: ImportGraph) -> None:
    assert contract("a", "b.open").check(graph, verbose=False).kept
    assert contract("a", "b").check(graph, verbose=False).kept


@pytest.mark.parametrize("allowed", [[], ["b.op"], ["b.open.deeper"]])
def test_anything_else_is_named_with_its_line(
    graph: ImportGraph, allowed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    broken = contract("a", *allowed)
    check = broken.check(graph, verbose=False)
    assert not check.kept
    broken.render_broken_contract(check)
    assert "a.inner, line 3: imports b.open" in capsys.readouterr().out


def test_a_contract_over_a_package_that_is_gone_fails(graph: ImportGraph) -> None:
    with pytest.raises(ValueError, match="names c, which does not exist"):
        contract("c").check(graph, verbose=False)
