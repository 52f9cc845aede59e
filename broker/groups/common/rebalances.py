"""What a rebalance was: why it began, who came when, who did not come; for people who ask why consumers stood still.

A classic member arrives when it joins again; the rebalance is over when the leader has made the assignment. A member of
a KIP-848 group arrives when it has what the new epoch gives it, and the rebalance is over when all have. All of it is
kept in memory alone: another coordinator begins without it.
"""

from collections import deque

from msgspec import Struct, field

LATE, SILENT = "did not", "was not heard of"
"""How it is said that a member did not do its part in time, and that it sent no heartbeats."""
REBALANCES_KEPT = 10
DEPARTED_MAX = 1_000
"""Of one rebalance: members that come and go could otherwise fill the memory of a coordinator that waits for others."""


class Participant(Struct, frozen=True):
    """A member, as a person recognizes it."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str

    @property
    def name(self) -> str:
        """The instance id says more than the member id, which is another one after each start."""
        return self.instance_id or self.member_id


class Arrival(Struct, frozen=True):
    participant: Participant
    seconds: float
    """After the beginning of the rebalance."""


class Departure(Struct, frozen=True):
    participant: Participant
    seconds: float
    why: str
    """A few words that follow the name: "did not come within 60 s". It begins with LATE or SILENT where that is what
    it was, since something else helps against either."""


class Rebalance(Struct):
    cause: str
    """One sentence without a full stop, which names the member: "worker-1 joined". LATE or SILENT stands in it where
    that is what the member was."""
    began: float
    """By Trio's clock."""
    began_ms: int
    """By the wall clock, as all other times that end in `_ms`."""
    expected: dict[str, Participant] = field(default_factory=dict)
    """By member id, the members that were there before and have neither come nor gone yet."""
    arrivals: dict[str, Arrival] = field(default_factory=dict)
    """By member id, in the order in which they came."""
    departed: list[Departure] = field(default_factory=list)
    """Who left or was removed while it went on, the first DEPARTED_MAX of them."""
    generation: int | None = None
    """The generation, or the epoch, that it led to; None as long as it is not known."""
    joined_ms: int | None = None
    """Classic groups: when all had come who came, and the leader began to make the assignment."""
    ended_ms: int | None = None
    """None while it goes on, and for good when another one began before it was over."""

    @property
    def last(self) -> Arrival | None:
        """Who came last."""
        return next(reversed(self.arrivals.values()), None)

    @property
    def late_seconds(self) -> float | None:
        """For how long all others waited for the last one alone; None when fewer than two came."""
        if len(self.arrivals) < 2:
            return None
        newest = reversed(self.arrivals.values())
        return next(newest).seconds - next(newest).seconds

    def on_arrival(self, participant: Participant, now: float) -> None:
        self.expected.pop(participant.member_id, None)
        self.arrivals.pop(participant.member_id, None)  # who comes again, comes now
        self.arrivals[participant.member_id] = Arrival(participant, now - self.began)

    def on_departure(self, participant: Participant, why: str, now: float) -> None:
        self.expected.pop(participant.member_id, None)
        self.arrivals.pop(participant.member_id, None)
        if len(self.departed) < DEPARTED_MAX:
            self.departed.append(Departure(participant, now - self.began, why))


def no_rebalances() -> deque[Rebalance]:
    """The last ones of a group, the newest at the end."""
    return deque(maxlen=REBALANCES_KEPT)
