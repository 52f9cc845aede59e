"""Runs a command on a real terminal (a pseudo terminal), and returns what it writes."""

import os
import pty
import subprocess
import sys
from collections.abc import Mapping, Sequence


def on_terminal(words: Sequence[str], environment: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Runs `python WORDS` with a terminal as standard output and error; returns its exit status and output."""
    ours, theirs = pty.openpty()
    variables = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")}
    try:
        process = subprocess.Popen(
            [sys.executable, *words],
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            env=variables | {"TERM": "xterm-256color"} | dict(environment or {}),
        )
    finally:
        os.close(theirs)
    pieces = []
    try:
        while piece := os.read(ours, 65536):
            pieces.append(piece)
    except OSError:
        pass  # Linux reports the end of the other side as an error
    finally:
        os.close(ours)
    return process.wait(), b"".join(pieces).decode().replace("\r\n", "\n")
