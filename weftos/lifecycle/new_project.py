"""Makes the project of an application: a file that declares it, its code, and a test of that."""

from __future__ import annotations

import importlib.util
import keyword
import re
from pathlib import Path

from weftos.errors import WeftosError

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")

_APP = """\
[app]
name = "{name}"

[[app.children]]
name = "greeter"
behaviour = "{name}"
tools = ["{name}_greet"]

[[app.behaviours]]
name = "{name}"
import = "{name}:Greeter"

[[app.tools]]
name = "{name}_greet"
import = "{name}:greet"
"""

_CODE = '''\
"""A tool, and a behaviour that uses it."""

from weftos import behaviour, tool


@tool(effects="none")
def greet(name: str) -> str:
    """Greet somebody by name."""
    return f"Hello, {{name}}!"


@behaviour
class Greeter:
    def __init__(self, info):
        self.info = info

    async def handle(self, message, sys):
        greeting = await sys.call_tool("{name}_greet", {{"name": message.text}})
        return greeting.text
'''

_TEST = """\
from {name} import Greeter, greet
from weftos.testing import Twin, call


def test_it_greets():
    assert call(greet, name="Ada").text == "Hello, Ada!"
    assert Twin(Greeter, tools={{"{name}_greet": greet}}).handle("Ada").reply == "Hello, Ada!"
"""


def make_project(place: Path) -> list[Path]:
    """Make the directory ``place``, named as the application is to be, with its files; these. Raises WeftosError,
    OSError.
    """
    name = place.name
    check_name(name)
    if place.exists() or place.is_symlink():
        raise WeftosError(f"{place} is there already: choose another name", "conflict")
    place.mkdir(mode=0o755, parents=True)
    files = {"app.toml": _APP, f"{name}.py": _CODE, f"test_{name}.py": _TEST}
    for file, text in files.items():
        (place / file).write_text(text.format(name=name))
    return [place / file for file in files]


def check_name(name: str) -> None:
    """A name is one of an application, of a Python module and of a tool at once. Raises WeftosError."""
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise WeftosError(
            f"{name[:80]!r} is no name for a project: a small letter, then up to 39 small letters, digits and _, and "
            "no word of Python's own",
            "invalid",
        )
    if importlib.util.find_spec(name) is not None:
        raise WeftosError(
            f"there is a Python module {name} already, which would come first: choose another", "conflict"
        )
