"""What one who reads without a leader may take for acknowledged, of what a quorum of stores say that they hold.

He does what a new leader does when it recovers, with the same rules for conflicts: below the largest high watermark the
log of the store that knows it counts, beyond it the entry of the largest epoch at each offset. But he cannot write, and
so he may not take for acknowledged whatever *may* be, as a leader does that makes it so. Beyond the high watermark he
shows only what is proven, counting as the leader of an epoch does:

- With `majority` and `nrw`, what W of the stores that commit in an epoch hold, all of them stamped with **that** epoch.
  Each has matched it in that epoch, with all before it, so its leader commits it; and any later leader meets one of the
  W and finds there, at each offset, nothing of a larger epoch but the same. W copies under different stamps prove
  nothing: a leader between the two may have put something else on a store that was not asked, with a stamp that wins.
- With `live`, what all live replicas hold alike while nobody is elected. Whoever is elected is one of them and keeps
  what it has, and lets nobody else in before he has it too. While there is a leader it may be about to count one more.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain

from msgspec import Struct

from tailrace.protocol.ids import Epoch, SpuId

from .entries import Entry, EntryKind, end_of, entry_at
from .policy import ReplicationPolicy
from .recovery import resolved


class Membership(Struct, frozen=True):
    """Who commits in an epoch, as the spec says that a store knows."""

    epoch: Epoch
    version: int
    """Of the live replicas."""
    has_leader: bool
    replicas: frozenset[SpuId]
    live_replicas: frozenset[SpuId]
    replicas_min: int
    policy: ReplicationPolicy

    @property
    def age(self) -> tuple[Epoch, int, bool]:
        """The newest has the largest: within an epoch, nobody leads any more when its leader is lost."""
        return self.epoch, self.version, not self.has_leader


class StoreAnswer(Struct, frozen=True):
    """What a store holds from the asked offset on, all of it at one moment."""

    spu: SpuId
    membership: Membership
    promised: Epoch
    in_doubt: bool
    """It may lack something that it acknowledged: for good, or while its log is being changed."""
    high_watermark: int
    log_start: int
    log_end: int
    read_end: int
    """Up to here the entries are all that there is."""
    entries: tuple[Entry, ...]
    """From the one that holds the offset on."""


class HeldEntry(Struct, frozen=True):
    entry: Entry
    holders: tuple[SpuId, ...]
    """Who has these very bytes, but for the epoch."""


class QuorumRead(Struct, frozen=True):
    start: int
    """The offset that was asked for, or where the log starts by now."""
    end: int
    """All before it is acknowledged, and from `start` on in `entries`."""
    may_end: int
    """Nothing beyond it was acknowledged when the stores were asked. What lies between may be, or not."""
    entries: tuple[HeldEntry, ...]
    """Records, without what recovery wrote between them."""


def quorum_read(
    position: int, answers: Collection[StoreAnswer], live: Collection[SpuId] | None = None
) -> QuorumRead | None:
    """None: too few stores have answered. `live`: who is live by a source that may know better than the stores do."""
    if not answers:
        return None
    membership = max((each.membership for each in answers), key=lambda each: each.age)
    counting = _counting(membership, live)
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
    log = list(resolved(_aligned(tails.values(), start, authority.high_watermark), tails.values()))
    if membership.policy.reads_others:
        proven = _counted_end(membership, sure, tails)
        may_end = end_of(log, 0)
    else:
        proven = _agreed_end(tails.values()) if _is_final(membership, answers) else 0
        may_end = _agreed_end([tails[each.spu] for each in sure or answers])
    if any(each.read_end < each.log_end for each in answers):
        may_end = max(each.log_end for each in answers)
    end = max(start, authority.high_watermark, proven)
    acknowledged = [*committed, *(each for each in log if each.end <= end)]
    return QuorumRead(start, end, max(end, may_end), _held(acknowledged, [authority, *answers]))


def _counting(membership: Membership, live: Collection[SpuId] | None) -> frozenset[SpuId]:
    """Whose answers count: with `live` none but live replicas, for others may lack what these have acknowledged, and
    after an unclean election know that to be committed which is lost."""
    if membership.policy.reads_others:
        return membership.replicas
    return membership.live_replicas if live is None else membership.live_replicas.intersection(live)


def _tails(answers: Collection[StoreAnswer], start: int, high_watermark: int) -> dict[SpuId, list[Entry]]:
    """What each has beyond both, as far as all have told what they have."""
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
    """Where the entry begins that holds the start. If what one store has there is acknowledged, no other has anything
    of a larger epoch there."""
    if start <= high_watermark:
        return high_watermark
    holding = [entry for entry in chain.from_iterable(tails) if entry.base <= start < entry.end]
    return max(holding, key=lambda entry: entry.epoch).base if holding else start


def _counted_end(newest: Membership, sure: Sequence[StoreAnswer], tails: Mapping[SpuId, Sequence[Entry]]) -> int:
    """The largest that the leader of some epoch commits, with what is stamped in it. Who commits in an epoch is known
    if one of the stores has its spec: that never changes."""
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
    """Whether those who are live stay so until one of them leads: and whoever that is has yet to begin, with what it
    has told."""
    has_all = membership.live_replicas <= {each.spu for each in answers}
    is_over = not membership.has_leader and all(each.promised <= membership.epoch for each in answers)
    return has_all and is_over and len(membership.live_replicas) >= membership.replicas_min


def _agreed_end(tails: Collection[Sequence[Entry]]) -> int:
    """Up to where all have the same; 0: they differ from the beginning."""
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
