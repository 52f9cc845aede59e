"""Decides which Streaming Controller (SC) to connect to next, when, and when to give up.

Several addresses are those of one SC and its standbys. They are tried one after the other without a pause, because the
next one may be active. A pause follows each round. The pause grows and has a random part, so that not all SPUs
connect at once to an SC that has just started.
"""

from collections.abc import Sequence

from tailrace.runtime.backoff import spread_pause_seconds
from tailrace.runtime.chance import Chance
from tailrace.runtime.network import Address

STABLE_SECONDS = 1.0
"""A shorter connection counts as a failure. Otherwise this SPU could reconnect forever without a pause."""
RESPONSE_SECONDS_MAX = 5.0
"""How long to wait for a connection, and for the response to the registration."""
STANDBY_ROUNDS = 4
"""The number of rounds in which an SC with standbys gets less time."""
STANDBY_RESPONSE_SECONDS_MAX = 1.0
"""How long to wait for each of several SCs in the first rounds.

A silent SC may be frozen or isolated. The standby that takes over holds elections without the SPUs that have not
registered within a lease (1.5 s), so this SPU has to reach the standby before that.
"""
DUPLICATE_LEASES_MAX = 2
"""The number of leases after which a process with our id is no earlier one that has died."""


class Reconnecting:
    def __init__(self, addresses: Sequence[Address], chance: Chance) -> None:
        self._addresses = tuple(addresses)
        self._chance = chance
        self._turn = 0
        self._failures = 0
        """The number of consecutive failures."""
        self.was_registered = False
        """Whether this process has ever been registered."""
        self._duplicate_since: float | None = None

    # state

    @property
    def address(self) -> Address:
        """The address to connect to next."""
        return self._addresses[self._turn]

    def pause_seconds(self) -> float:
        """Returns how long to wait before the next attempt."""
        rounds, tried_in_round = divmod(self._failures, len(self._addresses))
        if rounds == 0 or tried_in_round:
            return 0.0
        return spread_pause_seconds(rounds, self._chance)

    def response_seconds_max(self) -> float:
        """Returns how long to wait for the connection, and then for the response."""
        has_standbys = len(self._addresses) > 1
        in_first_rounds = self._failures < STANDBY_ROUNDS * len(self._addresses)
        return STANDBY_RESPONSE_SECONDS_MAX if has_standbys and in_first_rounds else RESPONSE_SECONDS_MAX

    # events

    def on_registered(self) -> None:
        self.was_registered = True
        self._duplicate_since = None

    def on_silent(self) -> None:
        """Tries the next SC, because the one with which this SPU is registered does not respond any more."""
        self._use_next_address()

    def on_lost(self, seconds: float) -> None:
        """Notes the end of a connection on which this SPU was registered for this time."""
        if seconds < STABLE_SECONDS:
            self.on_failed()
        else:
            self._failures = 0

    def on_failed(self) -> None:
        """Notes that there was no SC, or that it refused this SPU."""
        self._failures += 1
        self._use_next_address()

    def on_duplicate(self, now: float, lease_seconds: float) -> bool:
        """Notes that this SPU was refused because another process has its id. Returns whether to give up.

        The other process may be an earlier one that has died, so this SPU retries for a few leases. A process that has
        been registered before never gives up, because clients may depend on what it holds.
        """
        self.on_failed()
        if self.was_registered:
            return False
        if self._duplicate_since is None:
            self._duplicate_since = now
        return now - self._duplicate_since > DUPLICATE_LEASES_MAX * lease_seconds

    def _use_next_address(self) -> None:
        self._turn = (self._turn + 1) % len(self._addresses)
