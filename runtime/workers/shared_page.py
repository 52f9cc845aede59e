"""A page of memory that two processes share: slots for whole numbers and for times, and behind them a range of bytes.

A slot is aligned and has eight bytes, so that a reader sees the old or the new number and nothing in between. A reader
that needs two slots to fit together must look at a third one that changes with them.
"""

import mmap
import os
import time

_SLOT_BYTES = 4096
_HALF = _SLOT_BYTES // 2
CONTENT_BYTES = 2 << 20
"""The size of the range of bytes. The system provides the memory when it is written."""

clock = time.monotonic
"""The clock of shared times. It is the same in all processes of the machine, unlike Trio's."""


class SharedPage:
    """A page in memory, filled with zeros at first. It lives as long as a process has it open."""

    def __init__(self, descriptor: int | None = None) -> None:
        """Makes a new page, or opens the one that another process has handed over. The page owns the descriptor."""
        is_new = descriptor is None
        if descriptor is None:
            descriptor = os.memfd_create("tailrace-page")
        self.descriptor = descriptor
        try:
            if is_new:
                os.truncate(descriptor, _SLOT_BYTES + CONTENT_BYTES)
            view = memoryview(mmap.mmap(descriptor, _SLOT_BYTES + CONTENT_BYTES))
        except BaseException:
            os.close(descriptor)
            raise
        self.numbers: memoryview[int] = view[:_HALF].cast("q")
        self.times: memoryview[float] = view[_HALF:_SLOT_BYTES].cast("d")
        self.content = view[_SLOT_BYTES:]

    def close(self) -> None:
        """Closes the page here. The other process keeps it."""
        self.numbers.release()
        self.times.release()
        self.content.release()
        os.close(self.descriptor)
