"""A member of a classic group: what it said when it joined, what it was assigned, the requests that it waits with."""

from collections.abc import Iterable

from msgspec import Struct

from tailrace.broker.groups.common.coordinator_output import Waiter
from tailrace.broker.groups.common.rebalances import Participant
from tailrace.protocol.messages.join_group import JoinGroupRequestProtocol

_PROTOCOL_OVERHEAD = 100
"""About what a protocol takes in memory beside its bytes."""


class ClassicMember(Struct):
    participant: Participant
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: dict[str, bytes]
    """Metadata by the protocol's name; those that the member likes best come first."""
    assignment: bytes = b""
    joining: Waiter | None = None
    syncing: Waiter | None = None
    is_new: bool = False
    """It has had no answer yet, so it knows no member id and cannot send heartbeats."""

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
        """Empty for a protocol that the member does not know."""
        return self.protocols.get(protocol_name or "", b"")

    def has_same_protocols(self, protocols: dict[str, bytes]) -> bool:
        """In the same order, too: it is what the member votes by."""
        return self.protocols == protocols and list(self.protocols) == list(protocols)

    def take_waiters(self) -> list[Waiter]:
        waiters = [waiter for waiter in (self.joining, self.syncing) if waiter is not None]
        self.joining = self.syncing = None
        return waiters


def protocols_by_name(protocols: Iterable[JoinGroupRequestProtocol]) -> dict[str, bytes]:
    """Of two with the same name the first one counts."""
    by_name: dict[str, bytes] = {}
    for protocol in protocols:
        by_name.setdefault(protocol.name, protocol.metadata)
    return by_name


def protocols_size(protocols: dict[str, bytes]) -> int:
    return sum(len(name) + len(metadata) + _PROTOCOL_OVERHEAD for name, metadata in protocols.items())
