"""The demo is what a newcomer sees first: it holds all that it says."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.places import ROOT


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_everything_that_the_demo_shows_holds() -> None:
    command = [sys.executable, "-P", "-m", "weftos.demo"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "everything held" in done.stdout
