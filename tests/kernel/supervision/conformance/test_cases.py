"""The cases on the process tree on twins."""

from tests.kernel.supervision.conformance.cases import *  # noqa: F403
from tests.kernel.supervision.conformance.cases_of_significant_children import *  # noqa: F403
from tests.kernel.supervision.conformance.cases_of_specs import *  # noqa: F403
from tests.kernel.supervision.conformance.cases_of_starts import *  # noqa: F403
