"""Whom to ask next, after what pause, and when to give up: the decisions of the connection to the controller.

Several addresses are one Streaming Controller and its standbys: they are tried one after the other without a pause, as
the next may be the active one. A pause follows each round. It grows, and chance spreads it, so that a controller which
has just come back is not met by all SPUs at once, again and again.
"""

from collections.abc import Sequence

from tailrace.runtime.backoff import spread_pause_seconds
from tailrace.runtime.chance import Chance
from tailrace.runtime.network import Address

STABLE_SECONDS = 1.0
"""A connection that lived for less is as good as none: trying again at once could go on forever."""
ANSWER_SECONDS_MAX = 5.0
STANDBY_ROUNDS = 4
STANDBY_ANSWER_SECONDS_MAX = 1.0
"""So long one of several is waited for in the first rounds. The silent one may be frozen or cut off; whoever takes its
place elects without the SPUs that have not come within a lease (1.5 s), so a round has to end before that."""
DUPLICATE_LEASES_MAX = 2
"""For so long another process of our id may be one that has died, whose lease has yet to run out."""


class Reconnecting:
    def __init__(self, addresses: Sequence[Address], chance: Chance) -> None:
        self._addresses = tuple(addresses)
        self._chance = chance
        self._turn = 0
        self._failures = 0
        """In a row."""
        self.was_registered = False
        """At least once: what this process holds is not dropped for a quarrel about names."""
        self._duplicate_since: float | None = None

    # what is

    @property
    def address(self) -> Address:
        """Whom to ask next."""
        return self._addresses[self._turn]

    def pause_seconds(self) -> float:
        """How long to wait before that."""
        rounds, others_asked = divmod(self._failures, len(self._addresses))
        if rounds == 0 or others_asked:
            return 0.0
        return spread_pause_seconds(rounds, self._chance)

    def answer_seconds_max(self) -> float:
        """How long to wait for its connection, and then for its answer."""
        has_standbys = len(self._addresses) > 1
        in_first_rounds = self._failures < STANDBY_ROUNDS * len(self._addresses)
        return STANDBY_ANSWER_SECONDS_MAX if has_standbys and in_first_rounds else ANSWER_SECONDS_MAX

    # what happened

    def on_registered(self) -> None:
        self.was_registered = True
        self._duplicate_since = None

    def on_silent(self) -> None:
        """The one with whom this SPU is registered answers no more: another one may lead by now."""
        self._ask_next()

    def on_lost(self, seconds: float) -> None:
        """A connection ended on which this SPU was registered for so long."""
        if seconds < STABLE_SECONDS:
            self.on_failed()
        else:
            self._failures = 0

    def on_failed(self) -> None:
        """Nobody was there, or this SPU was refused."""
        self._failures += 1
        self._ask_next()

    def on_duplicate(self, now: float, lease_seconds: float) -> bool:
        """Refused because another process has this id. Whether that is final: it is no leftover of an earlier one.

        Never for a process that has served: what it holds is not dropped in a quarrel about a name.
        """
        self.on_failed()
        if self.was_registered:
            return False
        if self._duplicate_since is None:
            self._duplicate_since = now
        return now - self._duplicate_since > DUPLICATE_LEASES_MAX * lease_seconds

    def _ask_next(self) -> None:
        self._turn = (self._turn + 1) % len(self._addresses)
