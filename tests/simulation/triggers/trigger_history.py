"""Whether what replicas of a trigger did fits the promises of the trigger. Pure, without a cluster.

Workers report which events they handle and when, replicas report claims and commits, and the log of committed offsets
shows what the coordinator has stored. A report that contradicts an earlier one fails at once. The rest is checked at
the end:

- every record is handled, or is a dead letter (`check_all_settled`);
- no two events of a shard are handled at the same time (`check_overlaps`);
- the log of committed offsets has each claim, and no commit of an earlier owner after it (`check_commits`).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

from msgspec import Struct, field


class TriggerError(AssertionError):
    """One sentence about a promise of triggers that was broken."""


class End(Enum):
    """How the handling of an event ended."""

    HANDLED = "handled"
    FAILED = "failed"
    """The handler raised an exception, or its worker died."""
    CUT = "cut"
    """The event was ended because the lease or the time to stop was over, or because its machine or replica died."""


class Segment(NamedTuple):
    """A time in which an event was handled without a pause."""

    begin: float
    end: float


class Tenure(Struct, eq=False):
    """What one owner of a shard has done since its claim."""

    owner: str
    next_offset: int
    """The offset of the next event."""
    failures: dict[int, int] = field(default_factory=dict)
    """How often each event has failed."""
    is_lost: bool = False
    """Whether the owner knows that its lease has ended."""


class Handling(Struct, eq=False):
    """One attempt to handle one event."""

    tenure: Tenure
    owner: str
    """The process of the replica."""
    shard: int
    offset: int
    value: bytes
    began: float
    segments: list[Segment] = field(default_factory=list)
    end: End | None = None


class Commit(NamedTuple):
    """A record in the log of committed offsets."""

    shard: int
    offset: int
    epoch: int
    member_id: str


class Claim(NamedTuple):
    """A claim that was acknowledged."""

    shard: int
    offset: int
    epoch: int
    owner: str


class TriggerHistory:
    def __init__(self, *, attempts: int, has_record: Callable[[int, int], bool] = lambda shard, offset: True) -> None:
        """Prepares the history of a trigger that hands an event out at most `attempts` times.

        `has_record` says whether an offset of a shard has a record; control batches have none.
        """
        self.attempts = attempts
        self._has_record = has_record
        self.handlings: list[Handling] = []
        self.claims: list[Claim] = []
        self._values: dict[tuple[int, int], bytes] = {}
        self._handled: set[tuple[int, int]] = set()
        self._awaited: set[bytes] = set()
        """Values of outputs that were emitted and are not acknowledged."""
        self._acknowledged: set[bytes] = set()
        self._dead: set[bytes] = set()
        """Values of acknowledged dead letters."""
        self._tenures: dict[int, Tenure] = {}
        self._committed: dict[int, int] = {}
        """The offset of each shard that is committed at least, as a replica was told."""
        self._seen_at_claim: dict[tuple[str, int], int] = {}
        self._left_at: dict[int, int] = {}
        """The end of what an owner had handled that has released the shard in order."""
        self.repeats = 0

    # workers

    def begin(self, owner: str, shard: int, offset: int, value: bytes, now: float) -> Handling:
        """Notes that a worker begins an event."""
        tenure = self._tenures.get(shard)
        who = f"{owner} begins {shard}/{offset}"
        if tenure is None or tenure.owner != owner:
            raise TriggerError(f"{who} without the last claim, which is {tenure}")
        expected = self._next_record(shard, tenure.next_offset, offset)
        if offset != expected and tenure.failures.get(expected, 0) >= self.attempts:
            expected = self._next_record(shard, expected + 1, offset)  # the event was given up
        if offset != expected:
            raise TriggerError(f"{who}, but its next event is {expected}")
        tenure.next_offset = offset
        known = self._values.setdefault((shard, offset), value)
        if known != value:
            raise TriggerError(f"{shard}/{offset} is {value!r}, and was {known!r}")
        handling = Handling(tenure, owner, shard, offset, value, now)
        self.handlings.append(handling)
        return handling

    def pause(self, handling: Handling, began: float, ended: float) -> None:
        """Notes that the worker of an event was stopped between two times."""
        handling.segments.append(Segment(handling.began, began))
        handling.began = ended

    def _next_record(self, shard: int, offset: int, limit: int) -> int:
        while offset < limit and not self._has_record(shard, offset):
            offset += 1
        return offset

    def end(self, handling: Handling, end: End, now: float, output: bytes | None = None) -> None:
        """Notes how an event ended."""
        if end is not End.CUT or now > handling.began or not handling.segments:
            handling.segments.append(Segment(handling.began, now))
        handling.end = end
        key, tenure = (handling.shard, handling.offset), handling.tenure
        if end is End.HANDLED:
            self.repeats += key in self._handled
            self._handled.add(key)
            if output is not None and output not in self._acknowledged:
                self._awaited.add(output)
            tenure.next_offset = handling.offset + 1
        elif end is End.FAILED:
            tenure.failures[handling.offset] = tenure.failures.get(handling.offset, 0) + 1

    def tenure_of(self, shard: int) -> Tenure | None:
        """Returns the tenure of the owner of a shard, according to the last claim."""
        return self._tenures.get(shard)

    def lose(self, tenure: Tenure, safe: int) -> None:
        """Notes that a worker has died, and that what it has handled from an offset on must be handled again."""
        tenure.next_offset = min(tenure.next_offset, safe)

    # outputs

    def on_outputs_acknowledged(self, values: Iterable[bytes]) -> None:
        """Notes that brokers have acknowledged outputs."""
        self._acknowledged.update(values)
        self._awaited -= self._acknowledged

    def on_dead_letters_acknowledged(self, values: Iterable[bytes]) -> None:
        """Notes that brokers have acknowledged dead letters."""
        self._dead.update(values)

    @property
    def outputs(self) -> Collection[bytes]:
        """The outputs of all handled events."""
        return self._acknowledged | self._awaited

    @property
    def dead(self) -> Collection[bytes]:
        """The values of acknowledged dead letters."""
        return self._dead

    # claims and commits

    def on_claiming(self, owner: str, shard: int) -> None:
        """Notes that a replica is about to look where a shard begins."""
        self._seen_at_claim[owner, shard] = self._committed.get(shard, 0)

    def on_claimed(self, owner: str, shard: int, epoch: int, offset: int) -> None:
        """Notes that a claim was acknowledged."""
        seen = self._seen_at_claim[owner, shard]
        if offset < seen:
            raise TriggerError(f"{owner} begins shard {shard} at {offset}, although {seen} was committed before")
        left_at = self._left_at.pop(shard, None)
        if left_at is not None and offset < left_at:
            raise TriggerError(f"{owner} begins shard {shard} at {offset}, although it was released at {left_at}")
        self.claims.append(Claim(shard, offset, epoch, owner))
        self._committed[shard] = offset
        self._tenures[shard] = Tenure(owner, offset)

    def on_committing(self, owner: str, marks: Mapping[int, int]) -> None:
        """Notes that a replica is about to commit marks."""
        for shard, mark in marks.items():
            first = self._first_unsettled(shard, mark)
            if first < mark:
                raise TriggerError(f"{owner} commits {mark} in shard {shard}, but {first} is not handled and sent")

    def on_committed(self, shard: int, offset: int) -> None:
        """Notes that a commit was acknowledged."""
        self._committed[shard] = max(self._committed.get(shard, 0), offset)

    def on_lost(self, owner: str, shards: Iterable[int]) -> None:
        """Notes that a replica gives up shards without a last commit, because its lease has ended."""
        for shard in shards:
            tenure = self._tenures.get(shard)
            if tenure is not None and tenure.owner == owner:
                tenure.is_lost = True

    def on_left(self, owner: str) -> None:
        """Notes that a replica has left its group in order, with all its marks committed."""
        for shard, tenure in self._tenures.items():
            if tenure.owner == owner and not tenure.is_lost:
                self._left_at[shard] = tenure.next_offset

    def _first_unsettled(self, shard: int, end: int) -> int:
        return next((offset for offset in range(end) if not self._is_settled(shard, offset)), end)

    def _is_settled(self, shard: int, offset: int) -> bool:
        value = self._values.get((shard, offset))
        if value is None:
            return not self._has_record(shard, offset)
        is_handled = (shard, offset) in self._handled and value not in self._awaited
        return is_handled or value in self._dead

    # the end

    def unsettled(self, ends: Mapping[int, int]) -> str | None:
        """Returns a sentence about a record before the end of its shard that is not handled, or None."""
        for shard, end in ends.items():
            first = self._first_unsettled(shard, end)
            if first < end:
                return f"{shard}/{first} is not handled; the shard ends at {end}"
        return None


def check_overlaps(handlings: Iterable[Handling]) -> None:
    """Checks that no two events of one shard were handled at the same time."""
    by_shard: dict[int, list[tuple[Segment, Handling]]] = {}
    for each in handlings:
        by_shard.setdefault(each.shard, []).extend((segment, each) for segment in each.segments)
    for shard, found in by_shard.items():
        found.sort(key=lambda pair: pair[0])
        for (before, one), (after, other) in pairwise(found):
            if after.begin < before.end:
                raise TriggerError(
                    f"in shard {shard}, {one.owner} handles {one.offset} from {before.begin:.3f} to {before.end:.3f}, "
                    f"and {other.owner} handles {other.offset} from {after.begin:.3f} on"
                )


def check_commits(log: Sequence[Commit], claims: Iterable[Claim]) -> None:
    """Checks the log of committed offsets: owners are in order, no offset moves back, and each claim is there."""
    last: dict[int, Commit] = {}
    for commit in log:
        before = last.get(commit.shard)
        last[commit.shard] = commit
        if before is None:
            continue
        if commit.epoch < before.epoch:
            raise TriggerError(f"{commit} is stored after {before}, although its owner was deposed")
        if commit.epoch == before.epoch and commit.member_id != before.member_id:
            raise TriggerError(f"{commit} and {before} have the same epoch")
        if commit.offset < before.offset:
            raise TriggerError(f"{commit} moves the offset back from {before}")
    found = {(each.shard, each.epoch, each.offset) for each in log}
    for claim in claims:
        if (claim.shard, claim.epoch, claim.offset) not in found:
            raise TriggerError(f"{claim} is not stored")


def check_exactly_once(outputs: Mapping[bytes, int], letters: Mapping[bytes, int], emitted: Iterable[bytes]) -> None:
    """Checks what readers of committed records get: each emitted output once, unless the event is a dead letter."""
    for kind, counts in (("output", outputs), ("dead letter", letters)):
        if repeated := sorted(value for value, count in counts.items() if count > 1):
            raise TriggerError(f"{len(repeated)} values are committed twice as {kind}: {repeated[:3]}")
    if both := sorted(outputs.keys() & letters.keys()):
        raise TriggerError(f"{len(both)} values are committed as output and as dead letter: {both[:3]}")
    if lost := sorted(set(emitted) - outputs.keys() - letters.keys()):
        raise TriggerError(f"{len(lost)} outputs of handled events are lost: {lost[:3]}")
