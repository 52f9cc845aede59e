"""What this room must know of a coordinator, and of the kind of coordinators to which it belongs.

The kind is there from the start of an SPU. It imports the modules of its coordinators when the first partition needs
them, because most SPUs start without such partitions.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar, runtime_checkable

from msgspec import Struct

from tailrace.broker.replicas.replica import Replica
from tailrace.protocol.codec.primitives import Buffer
from tailrace.protocol.ids import Epoch
from tailrace.runtime.logs import FilteringBoundLogger

from .coordination_names import CoordinationNames
from .coordinator_output import CoordinatorOutput, Waiter
from .moment import Moment


class HostedCoordinator(Protocol):
    """Decides for the keys of one partition. It knows nothing but its log, and has no clock, disk or network."""

    @property
    def output(self) -> CoordinatorOutput[Any]:
        """The effects that it wants carried out. Whatever calls the coordinator takes them afterwards."""

    @property
    def deadline(self) -> float:
        """The time at which to call `on_deadline`: perhaps too early, never too late."""

    def replay(self, record: Any) -> None:
        """Applies the next record of the log while the log is loaded."""

    def on_loaded(self, moment: Moment) -> None:
        """Begins to coordinate, after all records have been replayed."""

    def on_deadline(self, moment: Moment) -> None:
        """Does what is due."""

    def waiters(self) -> list[Waiter]:
        """Takes out all parked requests, because this coordinator ends."""


@runtime_checkable
class TransactionalCoordinator(Protocol):
    """A coordinator some of whose records belong to transactions of producers."""

    def replay_pending(self, producer_id: int, record: Any) -> None:
        """Applies a record of a transaction that is open at the end of the log, after all other records.

        The record has no value if a later one has its key and is committed.
        """

    def on_marker(self, producer_id: int, *, is_commit: bool) -> None:
        """Ends the transaction of the producer, because its marker was appended to the log."""


C = TypeVar("C", bound=HostedCoordinator)
C_co = TypeVar("C_co", bound=HostedCoordinator, covariant=True)


class CoordinatorHost(Protocol[C_co]):
    """A partition, as its coordinator is tied to the rest of the SPU."""

    @property
    def replica(self) -> Replica: ...

    @property
    def epoch(self) -> Epoch:
        """The epoch of the leadership, which is also that of the coordinator."""

    @property
    def is_over(self) -> bool:
        """Whether this SPU does not coordinate with this coordinator any more."""

    def tell(self, call: Callable[[C_co, Moment], None]) -> bool:
        """Calls `call` with the coordinator because of an event that is no request. It must not raise KafkaError.

        Returns False if the event has no effect, because the coordinator is not loaded, has failed, or this SPU does
        not coordinate with it any more. Whatever calls this ends its turn afterwards.
        """


class RecordFormat(Struct, frozen=True):
    """How the records of a coordinator are written."""

    encode: Callable[[Any], tuple[bytes, bytes | None]]
    """Returns the key and the value of a record. A value of None is a tombstone."""
    decode: Callable[[Buffer | None, Buffer | None], Any | None]
    """Returns a record, or None for a type of record that is not known. Raises KafkaError and no other error."""
    barrier: Any
    """A record without effect, which is appended to prove that this SPU still leads."""


class CoordinatorKind(Protocol[C]):
    @property
    def names(self) -> CoordinationNames: ...

    def record_format(self) -> RecordFormat:
        """Returns the format of the records. Raises OSError if its modules cannot be imported at the moment."""

    def new_coordinator(self, partition: CoordinatorHost[C]) -> C:
        """Returns an empty coordinator for the partition. Raises OSError if its modules cannot be imported."""

    def commit_seconds_max(self) -> float:
        """Returns how long a response may wait for the commit of its records."""

    # what happens, for logs and metrics

    def on_loaded(self, logger: FilteringBoundLogger, coordinator: C, records: int, seconds: float) -> None: ...

    def on_unloaded(self, logger: FilteringBoundLogger, coordinator: C) -> None: ...

    def on_not_loaded(self, logger: FilteringBoundLogger, **details: object) -> None: ...

    def on_restarted(self, logger: FilteringBoundLogger, error: Exception) -> None: ...

    def on_record_skipped(self, logger: FilteringBoundLogger, **details: object) -> None: ...
