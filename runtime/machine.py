"""What a process uses of its machine or container: memory and open files."""

import os

_STATUS_PATH = "/proc/{}/statm"
_DESCRIPTORS_PATH = "/proc/self/fd"
_MEMORY_LIMIT_PATH = "/sys/fs/cgroup/memory.max"
"""The limit of the container, if there is one: bytes or "max"."""


def memory_used_bytes(process: int | None = None) -> int | None:
    """Returns the memory that this or another process occupies; None if the system does not tell."""
    try:
        with open(_STATUS_PATH.format("self" if process is None else process)) as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def memory_bytes_max() -> int | None:
    """Returns the memory limit of the container, or else the machine's memory; None if the system does not tell."""
    try:
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None
    try:
        with open(_MEMORY_LIMIT_PATH) as file:
            limit = file.read().strip()
            return machine if limit == "max" else min(machine, int(limit))
    except (OSError, ValueError):
        return machine  # there is no limit, or its format is unknown


def open_descriptors() -> int | None:
    """Returns how many descriptors the process has open; None if the system does not tell."""
    try:
        return len(os.listdir(_DESCRIPTORS_PATH))
    except OSError:
        return None
