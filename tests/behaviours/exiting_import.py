"""A module whose import wants to end the process."""

import sys

sys.exit(4)
