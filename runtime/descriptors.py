"""How the open files that a process may have are shared out: each connection takes one, and so does each log in use.

Clients in great numbers must not take the file that a log needs at this moment, for without it a replica goes offline.
One process may hold an SPU and the Streaming Controller; what is left, an eighth, is for other SPUs and all that is
open for a moment.
"""

import errno

UNBOUNDED = 2**31 - 1
_CLIENTS_OF_AN_SPU = 1 / 2
_LOGS = 1 / 4
_CLIENTS_OF_A_CONTROLLER = 1 / 8


def clients_of_an_spu(descriptors_max: int | None) -> int:
    """None stands for as many open files as one likes."""
    return _share(descriptors_max, _CLIENTS_OF_AN_SPU)


def clients_of_a_controller(descriptors_max: int | None) -> int:
    return _share(descriptors_max, _CLIENTS_OF_A_CONTROLLER)


def files_of_logs(descriptors_max: int | None) -> int:
    return _share(descriptors_max, _LOGS)


def are_used_up(error: OSError) -> bool:
    """Whether it says that no more files can be opened now: nothing is wrong with the file, or with its disk."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


def _share(descriptors_max: int | None, part: float) -> int:
    return UNBOUNDED if descriptors_max is None else max(1, int(descriptors_max * part))
