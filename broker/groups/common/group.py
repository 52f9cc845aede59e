"""The interface that classic groups and consumer groups share."""

from collections.abc import Iterable, Sized
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tailrace.broker.coordination.moment import Moment

if TYPE_CHECKING:
    from tailrace.broker.coordination.coordinator_output import Waiter

    from .coordinator_records import GroupRecord
    from .rebalances import Rebalance


class GroupKind(StrEnum):
    CLASSIC = "classic"
    CONSUMER = "consumer"


class TopicViewer(Protocol):
    """Which topics a client may see."""

    @property
    def version(self) -> int:
        """A number that changes whenever the answers may change."""

    def may_describe(self, topic: str) -> bool:
        """Whether the client may see a topic."""


class Caller(NamedTuple):
    """The client that sent a request."""

    client_id: str
    host: str
    """The address of the client as Kafka writes it, for example "/127.0.0.1"."""
    viewer: TopicViewer | None = None
    """Which topics the client may see; None if it may see all."""


class Group(Protocol):
    """A group of either kind."""

    group_id: str
    kind: GroupKind

    @property
    def state(self) -> str:
        """Kafka's name for the state, for example "Stable"."""

    @property
    def protocol_type(self) -> str:
        """The protocol type; empty for a group that has offsets but never had members."""

    @property
    def deadline(self) -> float:
        """The time at which to call `on_deadline`: perhaps too early, never too late."""

    @property
    def is_empty(self) -> bool: ...

    @property
    def awaits_members(self) -> bool:
        """Whether a client has been given a member id that it has not joined with yet."""

    @property
    def members(self) -> Sized:
        """The current members."""

    @property
    def empty_since_ms(self) -> int | None:
        """The time at which the last member left; None while the group has members, or if the time is unknown."""

    @property
    def rebalances(self) -> Iterable["Rebalance"]:
        """The last rebalances, the newest at the end."""

    def on_deadline(self, moment: Moment) -> None: ...

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, api_version: int, *, transactional: bool = False
    ) -> None:
        """Raises KafkaError if this member may not commit offsets now."""

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Raises KafkaError if this member may not fetch offsets, because its member epoch is wrong."""

    def check_deletable(self) -> None:
        """Raises KafkaError if the group has members."""

    def subscribed_topics(self) -> frozenset[str] | None:
        """Returns the topics that members subscribe to, or None if they are unknown."""

    def waiters(self) -> list["Waiter"]:
        """Takes out all parked requests, because the coordinator ends."""

    def tombstones(self) -> list["GroupRecord"]:
        """Returns the records that delete the group, but not its offsets."""
