"""How much of this machine's processor the process may use."""

import os

_QUOTA = "/sys/fs/cgroup/cpu.max"
"""Of the container that the process is in, if it is in one: microseconds of work, or "max", and of what time."""


def cores_for_us() -> float:
    cores = float(len(os.sched_getaffinity(0)))
    try:
        with open(_QUOTA) as file:
            work, time = file.read().split()
            return cores if work == "max" else min(cores, int(work) / int(time))
    except (OSError, ValueError, ZeroDivisionError):
        return cores  # nothing is said, or in a way that is not known
