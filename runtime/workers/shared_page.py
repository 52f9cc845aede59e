"""A page of memory that two processes share: slots for whole numbers, and slots for times.

A slot is aligned and has eight bytes, so that a reader sees the old or the new number and nothing in between. A reader
that needs two slots to fit together must look at a third one that changes with them.
"""

import mmap
import os
import time

PAGE_BYTES = 4096
_HALF = PAGE_BYTES // 2

clock = time.monotonic
"""The clock of shared times. It is the same in all processes of the machine, unlike Trio's."""


class SharedPage:
    """A page in memory, filled with zeros at first. It lives as long as a process has it open."""

    def __init__(self, descriptor: int | None = None) -> None:
        """Makes a new page, or opens the one that another process has handed over. Takes the descriptor."""
        if descriptor is None:
            descriptor = os.memfd_create("tailrace-page")
            os.truncate(descriptor, PAGE_BYTES)
        self.descriptor = descriptor
        self._memory = mmap.mmap(descriptor, PAGE_BYTES)
        view = memoryview(self._memory)
        self.numbers: memoryview[int] = view[:_HALF].cast("q")
        self.times: memoryview[float] = view[_HALF:].cast("d")

    def close(self) -> None:
        """Closes the page here. The other process keeps it."""
        self.numbers.release()
        self.times.release()
        os.close(self.descriptor)
