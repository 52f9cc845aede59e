"""Ports for servers that are told theirs before they start."""

import random
import socket

FIRST, LAST = 10_000, 32_000
"""Below those that systems give to outgoing connections, of which one might have it by the time that it is wanted."""
TRIES = 100


def free_port() -> int:
    for _ in range(TRIES):
        port = random.randint(FIRST, LAST)
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue  # somebody has it
    raise AssertionError(f"no port is free from {FIRST} to {LAST}")
