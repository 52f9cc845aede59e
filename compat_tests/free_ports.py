"""Ports for servers that are told theirs before they start."""

import random
import socket

FIRST, LAST = 10_000, 32_000
"""Below those that systems give to outgoing connections, of which one might have it by the time that it is wanted."""
TRIES = 100
_given: set[int] = set()
"""Whoever was given one may not listen there yet."""


def free_port() -> int:
    for _ in range(TRIES):
        port = random.randint(FIRST, LAST)
        if port in _given:
            continue
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue  # somebody has it
        _given.add(port)
        return port
    raise AssertionError(f"no port is free from {FIRST} to {LAST}")
