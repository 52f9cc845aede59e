"""The replica of a membership, as the tests see it: it records its shards, and releases them at once or when told."""

from collections.abc import Collection, Mapping

import trio

from tailrace.cluster.stream_state.rebalance_causes import Rebalance
from tailrace.trigger.membership.member_lease import MemberLease
from tailrace.trigger.replica.membership_task import Membership


class RecordingOwner:
    """Handles the shards that it has, without events."""

    def __init__(self, *, releases_at_once: bool = True) -> None:
        self.membership: Membership | None = None
        self.epochs: dict[int, int] = {}
        self.releasing: set[int] = set()
        self.lease: MemberLease | None = None
        self.calls: list[tuple[float, str, tuple[int, ...]]] = []
        self.rebalances: list[Rebalance] = []
        self.has_gained = trio.Event()
        self._releases_at_once = releases_at_once

    def on_lease(self, lease: MemberLease) -> None:
        assert lease.handle_until > trio.current_time()
        self.lease = lease

    def on_gained(self, shards: Mapping[int, int]) -> None:
        assert self.lease is not None, "the lease comes first"
        assert not shards.keys() & self.epochs.keys()
        self.epochs |= shards
        self.has_gained.set()
        self._note("gained", shards)

    def on_release(self, shards: Collection[int]) -> None:
        assert self.epochs.keys() >= set(shards)
        self._note("release", shards)
        self.releasing.update(shards)
        if self._releases_at_once:
            self.release_all()

    def on_lost(self, shards: Collection[int]) -> None:
        for shard in shards:
            del self.epochs[shard]
        self.releasing -= set(shards)
        self._note("lost", shards)

    def on_rebalanced(self, rebalance: Rebalance) -> None:
        self.rebalances.append(rebalance)

    def release_all(self) -> None:
        """Reports that all shards to release are handled and committed."""
        assert self.membership is not None
        for shard in sorted(self.releasing):
            del self.epochs[shard]
            self.membership.released(shard)
        self.releasing.clear()

    def _note(self, what: str, shards: Collection[int]) -> None:
        self.calls.append((trio.current_time(), what, tuple(sorted(shards))))
