"""What a command finds out about a group: who is in it and owns what, and how far it has come in each partition."""

from collections.abc import Iterable

from msgspec import Struct

from .log_facts import LogEnds, Partition


class Member(Struct, frozen=True):
    id: str
    client_id: str
    host: str
    instance_id: str | None = None
    owned: frozenset[Partition] = frozenset()
    target: frozenset[Partition] | None = None
    """What it shall own, where that is known: of KIP-848 groups."""
    epoch: int | None = None
    topics: frozenset[str] = frozenset()
    pattern: str = ""
    """What it is subscribed to, by name and by a regular expression."""

    @property
    def subscription(self) -> str:
        return ", ".join([*sorted(self.topics), *([f"/{self.pattern}/"] if self.pattern else [])])

    @property
    def name(self) -> str:
        """The instance id says more than the member id, which is another one after each start."""
        return self.instance_id or self.id

    @property
    def whereabouts(self) -> str:
        return whereabouts(self.name, self.client_id, self.host)


class Group(Struct, frozen=True):
    id: str
    type: str
    protocol: str
    state: str
    coordinator: int
    assignor: str = ""
    epoch: int | None = None
    assignment_epoch: int | None = None
    members: tuple[Member, ...] = ()

    def owners(self) -> dict[Partition, Member]:
        return {partition: member for member in self.members for partition in member.owned}


class ListedGroup(Struct, frozen=True):
    id: str
    type: str
    protocol: str
    state: str
    coordinator: int
    member_count: int | None
    """None where nobody can tell, as of groups that have other members than consumers."""


class Progress(Struct, frozen=True):
    """How far a group has come in one partition."""

    partition: Partition
    committed: int | None = None
    """The first offset that is not done with; None: nothing was committed."""
    metadata: str = ""
    log: LogEnds | None = None
    """None where nobody leads."""
    unread_since_ms: int | None = None
    """The timestamp of the first record that it has not read; None when there is none, or nobody looked."""
    owner: Member | None = None

    @property
    def lag(self) -> int | None:
        if self.committed is None or self.log is None:
            return None
        return max(self.log.end - self.committed, 0)

    def lag_seconds(self, now_ms: int) -> float | None:
        """How old the first unread record is; 0 when all is read, None when that cannot be told."""
        if self.lag == 0:
            return 0.0
        return None if self.unread_since_ms is None else max(now_ms - self.unread_since_ms, 0) / 1000


def whereabouts(name: str, client_id: str, host: str) -> str:
    return f"{name} ({client_id} at {host.removeprefix('/')})"


def total_lag(progress: Iterable[Progress]) -> int | None:
    """None when no partition has one."""
    known = [each.lag for each in progress if each.lag is not None]
    return sum(known) if known else None
