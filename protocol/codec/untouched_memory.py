"""Memory that takes no room before something is written to it.

A bytearray is filled with zeros when it is made, and it may be copied when it grows. For some megabytes each of these
takes as long as hundreds of small requests. Here a buffer has addresses for all of its bytes from the beginning, and
the system adds memory page by page.
"""

import mmap
from collections.abc import Generator

_STEP_BYTES = 4 * 2**20
"""How much is given back in a step, which takes less than a millisecond."""


def untouched(size: int) -> memoryview:
    """Returns `size` bytes, all of them 0. Raises OSError if the system has no room."""
    if not size:
        return memoryview(bytearray())
    return memoryview(mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))


def given_back(memory: memoryview) -> Generator[None, None, None]:
    """Gives what `untouched` returned back to the system, and yields after each step.

    Without this, the system takes all of it back in one go with the last reference. The bytes are 0 afterwards.
    """
    pages = memory.obj
    if isinstance(pages, mmap.mmap):
        for position in range(0, len(pages), _STEP_BYTES):
            pages.madvise(mmap.MADV_DONTNEED, position, min(_STEP_BYTES, len(pages) - position))
            yield
