"""Decides what was acknowledged, from the responses of several stores and without a leader.

It resolves conflicts as recovery does: below the largest high watermark, the log of the store that knows it counts;
beyond it, the entry of the largest epoch at each offset. But a reader cannot write. A new leader makes an entry durable
that *may* be acknowledged, and a reader cannot. So beyond the high watermark it shows only what is proven, by counting
as the leader of an epoch does:

- With `majority` and `nrw`: entries that W of the stores that commit in an epoch hold, all stamped with **that** epoch.
  Each of these stores has matched the entry in that epoch, with everything before it, so the leader of the epoch
  commits it. Each later leader includes one of the W stores, and finds at each offset no larger epoch with anything
  else. W copies with different stamps prove nothing: a leader between the two epochs may have put another entry on a
  store that was not asked, with a stamp that wins.
- With `live`: entries that all live replicas hold while no replica leads. The next leader is one of them, keeps what it
  has, and lets no other replica enter before it has the same. While there is a leader, it may be about to count one
  more replica.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain

from msgspec import Struct

from tailrace.protocol.ids import Epoch, SpuId

from .entries import Entry, EntryKind, end_of, entry_at
from .policy import ReplicationPolicy
from .recovery import merged_entries


class Membership(Struct, frozen=True):
    """Which stores commit in an epoch, as a store knows from its spec."""

    epoch: Epoch
    version: int
    """The version of the live replicas."""
    has_leader: bool
    replicas: frozenset[SpuId]
    live_replicas: frozenset[SpuId]
    replicas_min: int
    policy: ReplicationPolicy

    @property
    def recency(self) -> tuple[Epoch, int, bool]:
        """A key that is largest for the newest membership. Within an epoch, the one without a leader is newer, because
        a lost leader does not return in the same epoch."""
        return self.epoch, self.version, not self.has_leader


class StoreAnswer(Struct, frozen=True):
    """What a store holds from the requested offset on, at one moment."""

    spu: SpuId
    membership: Membership
    promised: Epoch
    in_doubt: bool
    """Whether the store may lack something that it acknowledged, permanently or while its log is being changed."""
    high_watermark: int
    log_start: int
    log_end: int
    read_end: int
    """The end up to which `entries` is complete."""
    entries: tuple[Entry, ...]
    """The entries from the one that contains the offset on."""


class HeldEntry(Struct, frozen=True):
    """An acknowledged entry and the stores that hold it."""

    entry: Entry
    holders: tuple[SpuId, ...]
    """The stores that hold exactly these bytes, except for the epoch."""


class QuorumRead(Struct, frozen=True):
    """The result of a quorum read."""

    start: int
    """The requested offset, or the log start if that is larger."""
    end: int
    """The end up to which everything is acknowledged; `entries` has what is between `start` and `end`."""
    may_end: int
    """The end beyond which nothing was acknowledged when the stores were asked. Entries between `end` and this one may
    be acknowledged or not."""
    entries: tuple[HeldEntry, ...]
    """The acknowledged entries with records, without those that recovery wrote."""


def quorum_read(
    position: int, answers: Collection[StoreAnswer], live: Collection[SpuId] | None = None
) -> QuorumRead | None:
    """Decides what was acknowledged from `position` on; returns None if too few stores have answered.

    `live` are the live replicas according to a source that may be newer than what the stores know.
    """
    if not answers:
        return None
    membership = max((each.membership for each in answers), key=lambda each: each.recency)
    counting = _counted_stores(membership, live)
    answers = [each for each in answers if each.spu in counting]
    sure = [each for each in answers if not each.in_doubt]
    in_doubt = {each.spu for each in answers if each.in_doubt}
    if not membership.policy.is_readable({each.spu for each in sure}, in_doubt, counting):
        return None
    start = max(position, *(each.log_start for each in answers))
    authority = max(answers, key=lambda each: each.high_watermark)
    committed = [each for each in authority.entries if each.base < authority.high_watermark and each.end > start]
    if authority.read_end < authority.high_watermark:
        may_end = max(each.log_end for each in answers)
        end = max(start, authority.read_end)
        return QuorumRead(start, end, max(end, may_end), _held(committed, [authority, *answers]))
    tails = _tails(answers, start, authority.high_watermark)
    log = list(merged_entries(_aligned(tails.values(), start, authority.high_watermark), tails.values()))
    if membership.policy.reads_others:
        proven = _proven_end(membership, sure, tails)
        may_end = end_of(log, 0)
    else:
        proven = _identical_end(tails.values()) if _is_final(membership, answers) else 0
        may_end = _identical_end([tails[each.spu] for each in sure or answers])
    if any(each.read_end < each.log_end for each in answers):
        may_end = max(each.log_end for each in answers)
    end = max(start, authority.high_watermark, proven)
    acknowledged = [*committed, *(each for each in log if each.end <= end)]
    return QuorumRead(start, end, max(end, may_end), _held(acknowledged, [authority, *answers]))


def _counted_stores(membership: Membership, live: Collection[SpuId] | None) -> frozenset[SpuId]:
    """Returns the stores whose answers count.

    With `live` these are live replicas only. Others may lack what these have acknowledged, and after an unclean
    election others may take entries as committed that are lost.
    """
    if membership.policy.reads_others:
        return membership.replicas
    return membership.live_replicas if live is None else membership.live_replicas.intersection(live)


def _tails(answers: Collection[StoreAnswer], start: int, high_watermark: int) -> dict[SpuId, list[Entry]]:
    """Returns each store's entries beyond `start` and the high watermark, up to where all answers are complete."""
    end = min((each.read_end for each in answers if each.read_end < each.log_end), default=None)
    return {
        each.spu: [
            entry
            for entry in each.entries
            if entry.base >= high_watermark and entry.end > start and (end is None or entry.end <= end)
        ]
        for each in answers
    }


def _aligned(tails: Collection[Sequence[Entry]], start: int, high_watermark: int) -> int:
    """Returns where the entry begins that contains `start`.

    If an entry that contains `start` is acknowledged, no store has an entry of a larger epoch there.
    """
    if start <= high_watermark:
        return high_watermark
    holding = [entry for entry in chain.from_iterable(tails) if entry.base <= start < entry.end]
    return max(holding, key=lambda entry: entry.epoch).base if holding else start


def _proven_end(newest: Membership, sure: Sequence[StoreAnswer], tails: Mapping[SpuId, Sequence[Entry]]) -> int:
    """Returns the largest end that the leader of some epoch commits, counting only entries stamped with that epoch.

    Which stores commit in an epoch is known if one of the stores has its spec, because this never changes.
    """
    memberships = {each.membership.epoch: each.membership for each in sure}
    end = 0
    for epoch, membership in memberships.items():
        matched = {
            each.spu: max((entry.end for entry in tails[each.spu] if entry.epoch == epoch), default=0)
            for each in sure
            if each.spu in membership.replicas
        }
        end = max(end, membership.policy.committed_end(matched, newest.live_replicas))
    return end


def _is_final(membership: Membership, answers: Collection[StoreAnswer]) -> bool:
    """Returns whether the live replicas stay the same until one of them leads, and the next leader has only what it has
    said now."""
    has_all = membership.live_replicas <= {each.spu for each in answers}
    is_over = not membership.has_leader and all(each.promised <= membership.epoch for each in answers)
    return has_all and is_over and len(membership.live_replicas) >= membership.replicas_min


def _identical_end(tails: Collection[Sequence[Entry]]) -> int:
    """Returns the end up to which all tails are identical; 0 if they differ from the beginning."""
    first, *others = tails
    end = 0
    for entry in first:
        if not all((other := entry_at(each, entry.base)) is not None and entry.is_same_as(other) for each in others):
            break
        end = entry.end
    return end


def _held(entries: Sequence[Entry], answers: Sequence[StoreAnswer]) -> tuple[HeldEntry, ...]:
    return tuple(
        HeldEntry(each, tuple(dict.fromkeys(_holders(each, answers)))) for each in entries if _has_records(each)
    )


def _has_records(entry: Entry) -> bool:
    return entry.kind in (EntryKind.EVENT, EntryKind.COMPACTED)


def _holders(entry: Entry, answers: Sequence[StoreAnswer]) -> Iterator[SpuId]:
    for each in answers:
        other = entry_at(each.entries, entry.base)
        if other is not None and other.stamped(entry.epoch) == entry:
            yield each.spu
