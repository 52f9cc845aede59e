"""The effects that a coordinator wants carried out: records to append, then responses to send and actions to take.

A response may tell of anything that was decided before it. It therefore waits until every record that was appended by
then is committed. The next coordinator, which knows the log alone, never contradicts what a client has been told.
"""

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from msgspec import Struct, field

from tailrace.protocol.error_codes import KafkaError

from .moment import Moment

R = TypeVar("R")

Action: TypeAlias = Callable[[Moment], None]
"""Something that a coordinator does at the moment that it gets."""


class Waiter(Protocol):
    """The sender of a request, which gets one response or one refusal."""

    def respond(self, response: Any) -> None: ...

    def refuse(self, error: KafkaError) -> None: ...


class PendingResponse(NamedTuple):
    """A response, or a KafkaError instead of one, for a waiter."""

    waiter: Waiter
    response: Any

    def send(self) -> None:
        if isinstance(self.response, KafkaError):
            self.waiter.refuse(self.response)
        else:
            self.waiter.respond(self.response)


class RecordProducer(NamedTuple):
    """The producer whose open transaction a coordinator's records belong to."""

    producer_id: int
    producer_epoch: int


class CoordinatorOutput(Struct, Generic[R]):
    """The effects of one coordinator since they were last taken."""

    records: list[R] = field(default_factory=list)
    """The records to append as one batch, so that the log has all of them or none."""
    producer: RecordProducer | None = None
    """The producer whose open transaction the records belong to; None if they belong to no transaction."""
    responses: list[PendingResponse] = field(default_factory=list)
    """The responses to send when these records, and all that were appended before them, are committed."""
    actions: list[Action] = field(default_factory=list)
    """What to do soon after the same commit."""
    responses_at_once: list[PendingResponse] = field(default_factory=list)
    """The responses to send without waiting for a commit."""

    def __bool__(self) -> bool:
        return bool(self.records or self.responses or self.actions or self.responses_at_once)

    def append(self, record: R) -> None:
        assert self.producer is None, "a batch belongs to a transaction as a whole or not at all"
        self.records.append(record)

    def append_in_transaction(self, record: R, producer: RecordProducer) -> None:
        """Appends a record that takes effect with the open transaction of the producer."""
        assert self.producer == producer or not self.records, (
            "a batch belongs to a transaction as a whole or not at all"
        )
        self.producer = producer
        self.records.append(record)

    def respond(self, waiter: Waiter, response: Any) -> None:
        self.responses.append(PendingResponse(waiter, response))

    def when_committed(self, action: Action) -> None:
        """Takes the action once everything that was appended by now is committed.

        The action may give the coordinator more output. If this SPU stops coordinating before the commit, the action is
        dropped: the next coordinator finds in the log what there is to do.
        """
        self.actions.append(action)

    def respond_at_once(self, waiter: Waiter, response: Any) -> None:
        """Responds without waiting for a commit. The response must not tell of anything that could still be lost."""
        self.responses_at_once.append(PendingResponse(waiter, response))

    def refuse(self, waiter: Waiter, error: KafkaError) -> None:
        self.responses_at_once.append(PendingResponse(waiter, error))

    def take(self) -> "CoordinatorOutput[R]":
        """Returns the effects and clears them: from now on the caller is responsible for them."""
        taken = CoordinatorOutput(self.records, self.producer, self.responses, self.actions, self.responses_at_once)
        self.records, self.responses, self.actions, self.responses_at_once = [], [], [], []
        self.producer = None
        return taken
