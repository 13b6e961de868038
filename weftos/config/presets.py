"""Providers that need no configuration: those whose key, or whose server, the environment of the node names.

Whatever the configuration says of a provider of the same name comes before this, and so does a tool that is given the
variable: then there is no such provider. A variable that makes no sense makes none either; ``weftos doctor`` says so.
Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

OLLAMA_PORT = 11434


@dataclass(frozen=True, slots=True)
class Preset:
    """``key``: the variable that holds the key, empty where none is needed; ``address``: the one that may hold another
    address than ``base_url``.
    """

    kind: str
    address: str
    base_url: str
    model: str
    key: str = ""


PRESETS: Mapping[str, Preset] = {
    "openai": Preset(
        "openai", "OPENAI_BASE_URL", "https://api.openai.com/v1", "gpt-4.1-mini", "OPENAI_API_KEY"
    ),
    "anthropic": Preset(
        "anthropic",
        "ANTHROPIC_BASE_URL",
        "https://api.anthropic.com",
        "claude-sonnet-4-5",
        "ANTHROPIC_API_KEY",
    ),
    "ollama": Preset("ollama", "OLLAMA_HOST", f"http://127.0.0.1:{OLLAMA_PORT}", "llama3.2"),
}


def tables(environment: Mapping[str, str], without: Collection[str] = ()) -> dict[str, dict[str, str]]:
    """The table of each provider that the environment allows, by name; a key in one of ``without`` is another's."""
    found = {}
    for name, preset in PRESETS.items():
        if preset.key and (not environment.get(preset.key, "").strip() or preset.key in without):
            continue
        url = address(name, environment)
        if url is not None:
            found[name] = {"kind": preset.kind, "base_url": url, "model": preset.model}
            if preset.key:
                found[name]["api_key_env"] = preset.key
    return found


def address(name: str, environment: Mapping[str, str]) -> str | None:
    """Where that provider's server is; None when the variable is no address."""
    preset = PRESETS[name]
    given = environment.get(preset.address, "").strip()
    if not given:
        return preset.base_url
    url = _of_ollama(given) if name == "ollama" else given
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    wrong = parts.username is not None or parts.password is not None or parts.query or parts.fragment
    return url if parts.scheme in ("http", "https") and parts.hostname and not wrong else None


def _of_ollama(given: str) -> str:
    """``OLLAMA_HOST`` may lack the scheme, the host or the port; where a server listens on all, it is called here."""
    url = given if "://" in given else f"http://{given}"
    scheme, _, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    host, colon, port = place.rpartition(":") if not place.endswith("]") else (place, "", "")
    if not colon:
        host, port = place, "" if scheme == "https" else str(OLLAMA_PORT)
    host = "127.0.0.1" if host in ("", "0.0.0.0", "[::]") else host
    return f"{scheme}://{host}{':' if port else ''}{port}{slash}{path}"
