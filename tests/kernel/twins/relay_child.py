"""Connects to a socket and passes bytes between it and stdin and stdout: a cell whose words the test writes."""

from __future__ import annotations

import os
import select
import socket
import sys

peer = socket.socket(socket.AF_UNIX)
peer.connect(sys.argv[1])
sources = {0: peer.fileno(), peer.fileno(): 1}
while True:
    for ready in select.select(list(sources), [], [])[0]:
        try:
            data = os.read(ready, 2**16)
            while data:
                data = data[os.write(sources[ready], data) :]
                if not data:
                    break
            else:
                sys.exit(0)
        except OSError:
            sys.exit(1)
