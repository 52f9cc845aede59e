"""Where `tailrace produce` takes its records from: an input with a record on every line, or a generator."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import trio

from tailrace.cli.options.sc_options import UsageError
from tailrace.cli.records.formats.produced_lines import Entry, Lines
from tailrace.client.outgoing_line import BATCH_BYTES_MAX

from .generated_records import GeneratedRecords

INPUT_BYTES_AT_ONCE = 512 * 1024
STEP_SECONDS = 0.05
"""How long a generator collects the records of a rate, so that they share batches."""

ReadInput = Callable[[int], Awaitable[bytes]]
"""Reads at most the given number of bytes; returns nothing at the end of the input."""


class Source(Protocol):
    """A source of records."""

    async def next(self) -> Sequence[Entry] | None:
        """Returns the next records, as soon as there are some; None at the end. Can be cancelled without a loss."""

    def check(self) -> None:
        """Raises UsageError if the input was wrong after the last records."""


class InputSource:
    """The records of an input."""

    def __init__(self, read: ReadInput, lines: Lines, name: str) -> None:
        self._read = read
        self._lines = lines
        self._name = name
        self._is_over = False

    async def next(self) -> Sequence[Entry] | None:
        if self._is_over:
            return None
        try:
            data = await self._read(INPUT_BYTES_AT_ONCE)
        except OSError as error:
            raise UsageError(f"{self._name}: {error.strerror}") from error
        self._is_over = not data
        return self._lines.feed(data) if data else self._lines.end()

    def check(self) -> None:
        if self._lines.fault is not None:
            raise UsageError(str(self._lines.fault))


class GeneratedSource:
    """A number of generated records, as fast as brokers take them, or at a rate."""

    def __init__(self, records: GeneratedRecords, count: int, record_bytes: int, rate: float | None) -> None:
        """Takes how many records there are, about how large each is, and how many come in a second."""
        self._records = records
        self._left = count
        self._made = 0
        self._at_once_max = max(1, BATCH_BYTES_MAX // record_bytes)
        self._rate = rate
        self._began: float | None = None

    async def next(self) -> Sequence[Entry] | None:
        if not self._left:
            return None
        count = min(self._left, self._at_once_max)
        if self._rate is not None:
            count = min(count, await self._due(self._rate))
        self._left -= count
        self._made += count
        return self._records.take(count)

    async def _due(self, rate: float) -> int:
        """Waits until records are due, and returns how many."""
        if self._began is None:
            self._began = trio.current_time()
        now, next_at = trio.current_time(), self._began + self._made / rate
        if now < next_at:
            await trio.sleep_until(max(next_at, now + STEP_SECONDS))
        return max(1, int((trio.current_time() - self._began) * rate) + 1 - self._made)

    def check(self) -> None:
        pass
