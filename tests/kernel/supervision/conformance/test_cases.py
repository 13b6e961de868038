"""The cases on the process tree on twins."""

from tests.kernel.supervision.conformance.cases import *  # noqa: F403
