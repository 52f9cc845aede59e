"""Chooses free ports for servers that need to know theirs before they start."""

import random
import socket

FIRST, LAST = 10_000, 32_000
"""The range of ports to choose from.

It lies below the range from which systems choose ports of outgoing connections, so that none of those takes a chosen
port before the server listens on it.
"""
TRIES = 100
_given: set[int] = set()
"""The ports that were returned already, because their servers may not listen yet."""


def free_port() -> int:
    for _ in range(TRIES):
        port = random.randint(FIRST, LAST)
        if port in _given:
            continue
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue  # another process listens on it
        _given.add(port)
        return port
    raise AssertionError(f"no port is free from {FIRST} to {LAST}")
