"""How many processor cores the process may use: those of the machine, or those of its container."""

import os

_QUOTA = "/sys/fs/cgroup/cpu.max"
"""The quota of the container, if there is one: microseconds of work or "max", and the period in microseconds."""


def usable_cores() -> float:
    """Returns how many cores the process may use."""
    cores = float(len(os.sched_getaffinity(0)))
    try:
        with open(_QUOTA) as file:
            work, time = file.read().split()
            return cores if work == "max" else min(cores, int(work) / int(time))
    except (OSError, ValueError, ZeroDivisionError):
        return cores  # there is no quota, or its format is unknown
