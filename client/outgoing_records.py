"""The records that one call gives to the producer, and the receipt that says what became of them."""

from collections.abc import Sequence
from typing import Protocol

import trio

from .outgoing_line import OutgoingLine
from .server_connection import RefusedError, UnreachableError


class Outgoing(Protocol):
    """A record to send."""

    @property
    def topic(self) -> str:
        """The topic."""

    @property
    def key(self) -> bytes | None:
        """The key; records with the same key go to the same partition."""

    @property
    def value(self) -> bytes | None:
        """The value."""

    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]:
        """The headers, in order."""

    @property
    def partition(self) -> int | None:
        """The partition; None chooses it by the key, as Kafka's clients do, or any if there is no key."""

    @property
    def timestamp_ms(self) -> int | None:
        """The timestamp; None stands for now."""


class RecordRefusedError(RefusedError):
    """A record was refused; the message is one sentence."""

    def __init__(self, message: str, code: int, number: int) -> None:
        super().__init__(message, code)
        self.number = number
        """The position of the record among those that were sent together."""


class Sending:
    """One call of `send`: a receipt for its records."""

    def __init__(self) -> None:
        self.left = 1
        """The records without a result, and 1 until all of them are in a line."""
        self.lines: set[OutgoingLine] = set()
        self.error: RefusedError | UnreachableError | None = None
        """The first error."""
        self.ended = trio.Event()

    def on_appended(self) -> None:
        self.left -= 1
        if not self.left:
            self.ended.set()

    def on_refused(self, number: int, error: RefusedError | UnreachableError) -> None:
        self.fail(number, error)
        self.on_appended()

    def fail(self, number: int, error: RefusedError | UnreachableError) -> None:
        """Keeps the first error."""
        if self.error is None:
            named = RecordRefusedError(str(error), error.code, number) if isinstance(error, RefusedError) else error
            self.error = named
