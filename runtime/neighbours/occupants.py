"""Finds out which process has a port or a lock file, so that messages can tell people what to stop.

Only Linux tells which process listens on a port. Elsewhere, and for processes of other users, there is no answer.
"""

import os
from contextlib import suppress

from tailrace.runtime.files import Files

_LISTEN = "0A"
"""The state of a socket that listens, in /proc/net/tcp."""
_COMMAND_CHARACTERS_MAX = 80


def process_on_port(port: int) -> int | None:
    """Returns the id of a process that listens on a TCP port of this machine, or None if that cannot be known."""
    wanted = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    if not wanted:
        return None
    import glob  # imported here because few starts fail

    for path in glob.iglob("/proc/[0-9]*/fd/*"):
        with suppress(OSError):  # the process has ended, or belongs to another user
            if os.readlink(path) in wanted:
                return int(path.split("/")[2])
    return None


def _listening_inodes(port: int) -> set[str]:
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError), open(table) as lines:
            for line in lines:
                entry = line.split()
                if entry[3] == _LISTEN and int(entry[1].rpartition(":")[2], 16) == port:
                    found.add(entry[9])
    return found


def process_with_lock(files: Files, path: str) -> int | None:
    """Returns the id of the process that holds a lock file, which the process has written into it."""
    with suppress(OSError, ValueError):
        return int(files.read(path))
    return None


def directory_in_use(files: Files, directory: str, lock_path: str) -> str:
    """Says which process has locked a data directory, and what to do."""
    used = in_use(directory, process_with_lock(files, lock_path), "another tailrace process")
    return f"{used}, or choose another directory with --data"


def in_use(what: str, process: int | None, otherwise: str) -> str:
    """Says which process uses `what`, and how to stop it; `otherwise` stands for a process that cannot be known."""
    command = None if process is None else _command_of(process)
    if command is None:
        return f"{what} is in use by {otherwise}: stop it"
    return f"{what} is in use by process {process} ({command}): stop it with `kill {process}`"


def _command_of(process: int) -> str | None:
    """Returns the command line of a process of this machine; None if there is none, because it has ended."""
    try:
        with open(f"/proc/{process}/cmdline", "rb") as file:
            words = file.read().decode(errors="replace").split("\0")
    except OSError:
        return None
    command = " ".join([os.path.basename(words[0]), *words[1:]]).strip()
    shown = "".join(each if each.isprintable() else "?" for each in command)
    if not shown:
        return None
    return shown if len(shown) <= _COMMAND_CHARACTERS_MAX else f"{shown[:_COMMAND_CHARACTERS_MAX]}…"
