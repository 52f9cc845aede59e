"""What the two kinds of groups have in common: what a coordinator, and whoever commits offsets, may ask of either."""

from collections.abc import Iterable, Sized
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from .moment import Moment

if TYPE_CHECKING:
    from .coordinator_output import Waiter
    from .coordinator_records import GroupRecord
    from .rebalances import Rebalance


class GroupKind(StrEnum):
    CLASSIC = "classic"
    CONSUMER = "consumer"


class Caller(NamedTuple):
    client_id: str
    host: str
    """As Kafka shows it: "/127.0.0.1"."""


class Group(Protocol):
    """What both kinds of groups can be asked and told."""

    group_id: str
    kind: GroupKind

    @property
    def state(self) -> str:
        """Kafka's name for it."""

    @property
    def protocol_type(self) -> str:
        """Empty where there are offsets only."""

    @property
    def deadline(self) -> float:
        """When it wants to be woken, if nothing happens before. It may be early, never late."""

    @property
    def is_empty(self) -> bool: ...

    @property
    def members(self) -> Sized:
        """Those that are there now."""

    @property
    def empty_since_ms(self) -> int | None:
        """None while it has members, or when it is not known."""

    @property
    def rebalances(self) -> Iterable["Rebalance"]:
        """The last ones, the newest at the end."""

    def on_deadline(self, moment: Moment) -> None: ...

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, api_version: int, *, transactional: bool = False
    ) -> None:
        """Raises KafkaError when this member may not commit offsets now."""

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Raises KafkaError when this member may not ask for offsets: it names an epoch that is not its own."""

    def check_deletable(self) -> None:
        """Raises KafkaError."""

    def subscribed_topics(self) -> frozenset[str] | None:
        """None when it cannot be known."""

    def waiters(self) -> list["Waiter"]:
        """Takes out whoever is parked here: the coordinator ends, and nobody will answer them."""

    def tombstones(self) -> list["GroupRecord"]:
        """The records that make the group gone, without its offsets."""
