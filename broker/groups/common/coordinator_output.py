"""What the groups of one partition ask to be done: records appended first, answers given then.

An answer may tell of anything that was decided before it, so it waits until all that was appended by then is committed:
what a client has once been told, no later coordinator has to take back.
"""

from typing import Any, NamedTuple, Protocol

from msgspec import Struct, field

from tailrace.protocol.error_codes import KafkaError

from .coordinator_records import GroupRecord
from .group_counts import GroupCounts


class Waiter(Protocol):
    """Whoever asked, and is answered or refused once."""

    def answer(self, reply: Any) -> None: ...

    def refuse(self, error: KafkaError) -> None: ...


class Answer(NamedTuple):
    waiter: Waiter
    reply: Any

    def give(self) -> None:
        if isinstance(self.reply, KafkaError):
            self.waiter.refuse(self.reply)
        else:
            self.waiter.answer(self.reply)


class Ready(Struct):
    counts: GroupCounts
    """Of all that was ever made ready, by any coordinator here."""
    records: list[GroupRecord] = field(default_factory=list)
    """To be appended together: a log has all of them or none."""
    answers: list[Answer] = field(default_factory=list)
    """To be given when these records, and all that was appended before them, are committed."""
    answers_at_once: list[Answer] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.records or self.answers or self.answers_at_once)

    def append(self, record: GroupRecord) -> None:
        self.records.append(record)

    def answer(self, waiter: Waiter, reply: Any) -> None:
        self.answers.append(Answer(waiter, reply))

    def answer_at_once(self, waiter: Waiter, reply: Any) -> None:
        """For what tells of nothing that could still be lost."""
        self.answers_at_once.append(Answer(waiter, reply))

    def refuse(self, waiter: Waiter, error: KafkaError) -> None:
        self.answers_at_once.append(Answer(waiter, error))

    def take(self) -> "Ready":
        """What there is to do; it counts as done."""
        taken = Ready(self.counts, self.records, self.answers, self.answers_at_once)
        self.records, self.answers, self.answers_at_once = [], [], []
        return taken
