"""A member of a classic group: its protocols, its assignment, and its parked requests."""

from collections.abc import Iterable

from msgspec import Struct

from tailrace.broker.coordination.coordinator_output import Waiter
from tailrace.broker.groups.common.rebalances import Participant
from tailrace.protocol.messages.join_group import JoinGroupRequestProtocol

_PROTOCOL_OVERHEAD = 100
"""About how much memory a protocol takes in addition to its bytes."""


class ClassicMember(Struct):
    participant: Participant
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: dict[str, bytes]
    """The metadata of each protocol by name, in the member's order of preference."""
    assignment: bytes = b""
    joining: Waiter | None = None
    """The parked JoinGroup request."""
    syncing: Waiter | None = None
    """The parked SyncGroup request."""
    is_new: bool = False
    """Whether the member has had no response yet, so that it knows no member id and cannot send heartbeats."""

    @property
    def member_id(self) -> str:
        return self.participant.member_id

    @property
    def instance_id(self) -> str | None:
        return self.participant.instance_id

    @property
    def is_static(self) -> bool:
        return self.participant.instance_id is not None

    @property
    def name(self) -> str:
        return self.participant.name

    @property
    def bytes_held(self) -> int:
        names = (self.member_id, self.instance_id or "", self.participant.client_id)
        return sum(map(len, names)) + protocols_size(self.protocols)

    def metadata(self, protocol_name: str | None) -> bytes:
        """Returns the metadata for the protocol, empty if the member does not support it."""
        return self.protocols.get(protocol_name or "", b"")

    def has_same_protocols(self, protocols: dict[str, bytes]) -> bool:
        """Returns whether the protocols are the same and in the same order, by which the member votes."""
        return self.protocols == protocols and list(self.protocols) == list(protocols)

    def take_waiters(self) -> list[Waiter]:
        """Takes out the parked requests."""
        waiters = [waiter for waiter in (self.joining, self.syncing) if waiter is not None]
        self.joining = self.syncing = None
        return waiters


def protocols_by_name(protocols: Iterable[JoinGroupRequestProtocol]) -> dict[str, bytes]:
    """Returns the metadata by name. The first of several protocols with one name counts."""
    by_name: dict[str, bytes] = {}
    for protocol in protocols:
        by_name.setdefault(protocol.name, protocol.metadata)
    return by_name


def protocols_size(protocols: dict[str, bytes]) -> int:
    return sum(len(name) + len(metadata) + _PROTOCOL_OVERHEAD for name, metadata in protocols.items())
