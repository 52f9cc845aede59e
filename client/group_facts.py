"""Facts about a group: its members, the partitions that they own, and its progress in each partition."""

from collections.abc import Iterable

from msgspec import Struct

from .log_facts import LogEnds, Partition


class Member(Struct, frozen=True):
    """A member of a group."""

    id: str
    client_id: str
    host: str
    instance_id: str | None = None
    owned: frozenset[Partition] = frozenset()
    target: frozenset[Partition] | None = None
    """The partitions that the member should own; None in a classic group."""
    epoch: int | None = None
    topics: frozenset[str] = frozenset()
    """The topics to which the member subscribes by name."""
    pattern: str = ""
    """The regular expression of the topics to which the member subscribes; empty if there is none."""

    @property
    def subscription(self) -> str:
        """The subscription as text."""
        return ", ".join([*sorted(self.topics), *([f"/{self.pattern}/"] if self.pattern else [])])

    @property
    def name(self) -> str:
        """The instance id, or else the member id, which changes with each start."""
        return self.instance_id or self.id

    @property
    def whereabouts(self) -> str:
        """The member's name, client and host."""
        return whereabouts(self.name, self.client_id, self.host)


class Group(Struct, frozen=True):
    """A group with its members."""

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
        """Returns the owner of each owned partition."""
        return {partition: member for member in self.members for partition in member.owned}


class ListedGroup(Struct, frozen=True):
    """A group in a list of groups."""

    id: str
    type: str
    protocol: str
    state: str
    coordinator: int
    member_count: int | None
    """The number of members; None if it is unknown, for example if the members are not consumers."""


class Progress(Struct, frozen=True):
    """The progress of a group in one partition."""

    partition: Partition
    committed: int | None = None
    """The committed offset; None if the group has committed nothing."""
    metadata: str = ""
    log: LogEnds | None = None
    """The bounds of the log; None if there is no leader."""
    unread_since_ms: int | None = None
    """The timestamp of the first unread record; None if there is none or it was not looked up."""
    owner: Member | None = None

    @property
    def lag(self) -> int | None:
        """The number of unread records; None if it is unknown."""
        if self.committed is None or self.log is None:
            return None
        return max(self.log.end - self.committed, 0)

    def lag_seconds(self, now_ms: int) -> float | None:
        """Returns the age of the first unread record; 0 if everything is read, and None if the age is unknown."""
        if self.lag == 0:
            return 0.0
        return None if self.unread_since_ms is None else max(now_ms - self.unread_since_ms, 0) / 1000


def whereabouts(name: str, client_id: str, host: str) -> str:
    """Formats the name, client and host of a member."""
    return f"{name} ({client_id} at {host.removeprefix('/')})"


def total_lag(progress: Iterable[Progress]) -> int | None:
    """Returns the sum of all known lags; None if no lag is known."""
    known = [each.lag for each in progress if each.lag is not None]
    return sum(known) if known else None
