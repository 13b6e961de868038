"""An import-linter contract that lists what a package may import of ours, instead of what it may not.

A list of the forbidden goes stale with each new module; a list of the allowed refuses a new module by itself.
Direct imports are enough to look at: each allowed module has a contract of its own.
"""

from __future__ import annotations

from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class OnlyContract(Contract):
    """``importer`` and its submodules import, of the root packages, only themselves and ``allowed``."""

    importer = fields.StringField()
    allowed = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        importer, permitted = str(self.importer), [str(self.importer), *map(str, self.allowed)]  # type: ignore[call-overload]  # Field is a descriptor
        roots = set(self.session_options["root_packages"])
        if importer not in graph.modules:
            raise ValueError(f"import contract names {importer}, which does not exist")
        broken = [
            detail
            for module in sorted({importer, *graph.find_descendants(importer)})
            for imported in sorted(graph.find_modules_directly_imported_by(module))
            if imported.split(".")[0] in roots and not any(_within(imported, name) for name in permitted)
            for detail in graph.get_import_details(importer=module, imported=imported)
        ]
        return ContractCheck(kept=not broken, metadata={"broken": broken})

    def render_broken_contract(self, check: ContractCheck) -> None:
        details: list[Any] = check.metadata["broken"]
        for detail in details:
            where = f"{detail['importer']}, line {detail['line_number']}"
            output.print_error(f"{where}: imports {detail['imported']}")


def _within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")
