"""Where a model server is, and under which name it is configured."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Where the server is.

    ``api_key_env`` names the environment variable with the key; empty: no key is sent.
    """

    name: str
    base_url: str
    model: str = ""
    api_key_env: str = ""
    stream: bool = True

    def check(self) -> list[str]:
        """Every fault at once; empty when it can be used."""
        faults = []
        try:
            url = urlsplit(self.base_url)
            _ = url.port, (url.hostname or "").encode("idna")
        except ValueError:
            return [f"providers.{self.name}.base_url is not a URL"]
        if url.scheme not in ("http", "https") or not url.hostname:
            faults.append(f"providers.{self.name}.base_url must be http://HOST... or https://HOST...")
        if url.username is not None or url.password is not None:
            faults.append(f"providers.{self.name}.base_url must hold no user or password; use api_key_env")
        if url.query or url.fragment:
            faults.append(f"providers.{self.name}.base_url must have no ? or # part")
        return faults
