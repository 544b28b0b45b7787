"""Can a port of this machine be taken?"""

from __future__ import annotations

import socket


def port_is_free(bind: str, port: int) -> bool:
    """Whether a server could listen on ``bind:port`` of this machine."""
    family = socket.AF_INET6 if ":" in bind else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((bind, port))
        except OSError:
            return False
    return True
