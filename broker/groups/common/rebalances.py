"""The last rebalances of a group: their causes, and when each member arrived or left.

They answer the question why consumers stood still. A classic member arrives when it joins again, and the rebalance ends
when the group leader has made the assignment. A member of a consumer group arrives when it has its assignment of the
new epoch, and the rebalance ends when all members have theirs. Rebalances are kept in memory alone: a new coordinator
begins with none.
"""

from collections import deque

from msgspec import Struct, field

LATE, SILENT = "did not", "sent no heartbeat"
"""The words with which causes and reasons tell that a member was late, or that its session timed out.

`cli/groups/group_advice.py` looks for these words to give advice.
"""
REBALANCES_KEPT = 10
EXPECTED_MAX = 1_000
"""How many expected members of a consumer group are kept per rebalance.

Without this bound, a change of one member would cost as much as the group has members.
"""
DEPARTED_MAX = 1_000
"""How many departures are kept per rebalance. Members that come and go must not fill the memory."""


class Participant(Struct, frozen=True):
    """A member, with what helps a person to recognize it."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str

    @property
    def name(self) -> str:
        """The instance id if there is one, because the member id changes with each start."""
        return self.instance_id or self.member_id


class Arrival(Struct, frozen=True):
    participant: Participant
    seconds: float
    """The time since the rebalance began."""


class Departure(Struct, frozen=True):
    participant: Participant
    seconds: float
    why: str
    """The reason, in words that follow the name: "did not join within 60 s". It begins with LATE or SILENT if the
    member was late or silent.
    """


class Rebalance(Struct):
    cause: str
    """One sentence without a full stop, which names the member: "worker-1 joined". It contains LATE or SILENT if the
    member was late or silent."""
    began: float
    """The begin by Trio's clock."""
    began_ms: int
    """The begin by the wall clock, as all other times that end in `_ms`."""
    expected: dict[str, Participant] = field(default_factory=dict)
    """The members, by member id, that were in the group before and have neither arrived nor left yet.

    A consumer group keeps the first EXPECTED_MAX of them.
    """
    arrivals: dict[str, Arrival] = field(default_factory=dict)
    """The arrivals by member id, in their order."""
    departed: list[Departure] = field(default_factory=list)
    """The first DEPARTED_MAX members that left or were removed during the rebalance."""
    generation: int | None = None
    """The generation, or the group epoch, that the rebalance led to; None until it is known."""
    joined_ms: int | None = None
    """The time at which a classic group had its members, and its leader began to make the assignment."""
    ended_ms: int | None = None
    """The end; None during the rebalance, and forever if another rebalance began before the end."""

    @property
    def last(self) -> Arrival | None:
        """The last arrival, or None."""
        return next(reversed(self.arrivals.values()), None)

    @property
    def late_seconds(self) -> float | None:
        """How long all others waited for the last member alone; None if fewer than two members arrived."""
        if len(self.arrivals) < 2:
            return None
        newest = reversed(self.arrivals.values())
        return next(newest).seconds - next(newest).seconds

    def on_arrival(self, participant: Participant, now: float) -> None:
        self.expected.pop(participant.member_id, None)
        self.arrivals.pop(participant.member_id, None)  # a member that arrives again moves to the end
        self.arrivals[participant.member_id] = Arrival(participant, now - self.began)

    def on_departure(self, participant: Participant, why: str, now: float) -> None:
        self.expected.pop(participant.member_id, None)
        self.arrivals.pop(participant.member_id, None)
        if len(self.departed) < DEPARTED_MAX:
            self.departed.append(Departure(participant, now - self.began, why))


def new_rebalance_history() -> deque[Rebalance]:
    """Returns an empty history, which keeps the last rebalances of a group with the newest at the end."""
    return deque(maxlen=REBALANCES_KEPT)
