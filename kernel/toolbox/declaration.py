"""A tool's declaration as data: checked, and carried over a worker's link.

A third-party tool's declaration comes out of a worker process that runs its code, so everything in it is
somebody else's: types, sizes and values are checked here before the node believes them.
"""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Any, get_args

from kernel.abi import Effects, OnDoubt, Role, Sandbox, ToolDeclaration
from kernel.operations.rights.capabilities import host_faults
from kernel.toolbox.arguments import SchemaError, Validator, canonical_json

MAX_DESCRIPTION_BYTES = 4096
MAX_SCHEMA_BYTES = 64 * 2**10
MAX_TIMEOUT_S = 3600.0
MAX_PARAMETER_CHARS = 64
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}").fullmatch
_TYPES: dict[str, type | tuple[type, ...]] = {
    "name": str,
    "description": str,
    "parameters": dict,
    "effects": str,
    "idempotent": bool,
    "on_doubt": str,
    "sandbox": str,
    "timeout_s": (int, float),
    "roles": (list, tuple),
    "confirmation": bool,
    "effect_parameter": str,
    "probe": bool,
    "network": (list, tuple),
}


class DeclarationError(Exception):
    """A declaration that cannot be used. The message names every fault; the fault is the tool's author's."""


def check_declaration(declaration: ToolDeclaration) -> list[str]:
    """Every fault of ``declaration`` in words; empty when there is none."""
    faults: list[str] = []
    if not _NAME(declaration.name):
        faults.append(f"name {declaration.name[:80]!r} is not 1 to 64 letters, digits, _ or -")
    size = len(declaration.description.encode("utf-8", "backslashreplace"))
    if not declaration.description.strip() or size > MAX_DESCRIPTION_BYTES:
        faults.append(f"description has {size} bytes, must have text of at most {MAX_DESCRIPTION_BYTES}")
    for field, value, allowed in (
        ("effects", declaration.effects, get_args(Effects)),
        ("on_doubt", declaration.on_doubt, get_args(OnDoubt)),
        ("sandbox", declaration.sandbox, get_args(Sandbox)),
    ):
        if value not in allowed:
            faults.append(f"{field} is {str(value)[:40]!r}, must be one of {', '.join(allowed)}")
    if not 0 < declaration.timeout_s <= MAX_TIMEOUT_S:
        faults.append(f"timeout_s is {declaration.timeout_s}, must be above 0 and at most {MAX_TIMEOUT_S:g}")
    if unknown := [role for role in declaration.roles if role not in get_args(Role)]:
        faults.append(f"roles has {unknown[0][:40]!r}, must be of {', '.join(get_args(Role))}")
    faults += host_faults(declaration.network)
    faults += _schema_faults(declaration.parameters)
    return faults + _probe_faults(declaration)


def _probe_faults(declaration: ToolDeclaration) -> list[str]:
    faults: list[str] = []
    parameter, schema = declaration.effect_parameter, declaration.parameters
    if parameter and not (parameter.isidentifier() and len(parameter) <= MAX_PARAMETER_CHARS):
        faults.append(f"effect_parameter {parameter[:80]!r} is no name of a parameter")
    properties = schema.get("properties")
    if parameter and isinstance(properties, dict) and parameter in properties:
        faults.append(
            f"effect_parameter {parameter[:80]!r} is an argument too; whoever calls must not choose it"
        )
    if declaration.probe and declaration.effects == "none":
        faults.append("probe is set, and a tool without effects has nothing that could have landed")
    if declaration.probe and not parameter and declaration.sandbox == "thirdparty":
        faults.append("probe is set and effect_parameter is not, so no probe could find its effects")
    return faults


def _schema_faults(schema: dict[str, Any]) -> list[str]:
    try:
        size = len(canonical_json(schema).encode())
    except (TypeError, ValueError, RecursionError) as error:
        return [f"parameters is not JSON: {str(error)[:200]}"]
    if size > MAX_SCHEMA_BYTES:
        return [f"parameters has {size} bytes as JSON, at most {MAX_SCHEMA_BYTES} are accepted"]
    if schema.get("type") != "object":
        return ['parameters must be a JSON Schema of an object, with "type": "object"']
    try:
        Validator(schema)
    except SchemaError as error:
        return [f"parameters is {error}"]
    return []


def declaration_to_data(declaration: ToolDeclaration) -> dict[str, Any]:
    """The declaration as plain data, as it travels."""
    return asdict(declaration)


def declaration_from_data(data: Any) -> ToolDeclaration:
    """The declaration in ``data``. Raises :class:`DeclarationError` naming every fault."""
    if not isinstance(data, dict) or set(data) != set(_TYPES):
        raise DeclarationError("it is not an object with exactly the fields of a tool declaration")
    faults = [
        f"{field} is {type(data[field]).__name__}"
        for field, wanted in _TYPES.items()
        if not isinstance(data[field], wanted) or (field == "timeout_s" and isinstance(data[field], bool))
    ]
    if not faults and not all(isinstance(role, str) for role in data["roles"]):
        faults.append("roles holds what is no text")
    if not faults and not all(isinstance(host, str) for host in data["network"]):
        faults.append("network holds what is no text")
    if not faults:
        declaration = ToolDeclaration(
            **{**data, "roles": tuple(data["roles"]), "network": tuple(data["network"])}
        )
        faults = check_declaration(declaration)
        if not faults:
            return declaration
    raise DeclarationError("; ".join(faults))
