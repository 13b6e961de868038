"""The gateway as a program, ``TOLD --link-fd N --boot B``: for tests without a node, whose nursery would bear it."""

from __future__ import annotations

import sys

from kernel.helper.helper import die_with_parent
from weftos.helpers.gateway import main

told, _, link_fd, _, boot = sys.argv[1:]
die_with_parent()
sys.exit(main(told.encode(), int(link_fd), int(boot)))
