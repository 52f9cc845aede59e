"""A store of the model: what is on its disk, of which a power failure takes what was not synced, and in its process."""

import random
from collections.abc import Iterator, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from tailrace.broker.replication.entries import Entry, EntryKind
from tailrace.broker.replication.epoch_starts import EpochStart
from tailrace.broker.replication.follower import Follower
from tailrace.broker.replication.high_watermark import HighWatermark, epoch_at_start, high_watermark_at_start
from tailrace.broker.replication.leader import Leader
from tailrace.broker.replication.sealing import Promise
from tailrace.protocol.ids import NO_EPOCH, Epoch, SpuId
from tailrace.storage.directory.checkpoints import SavedHighWatermark

Content = tuple[int, int, EntryKind, int]


class InvariantError(AssertionError):
    """The sentence says which one."""


def check(holds: bool, sentence: str) -> None:
    if not holds:
        raise InvariantError(sentence)


def content_of(entry: Entry) -> Content:
    """Whether it has been compacted or not: that makes the number negative."""
    kind = EntryKind.EVENT if entry.kind is EntryKind.COMPACTED else entry.kind
    return entry.base, entry.end, kind, abs(entry.content)


class ListLog:
    def __init__(self, entries: list[Entry] | None = None) -> None:
        self.all: list[Entry] = entries or []
        self._starts: list[EpochStart] = []
        """Of epochs, some of them yet to come."""
        self.stamped_end = 0
        self._log_end = 0
        self._log_start = 0
        self._stamping_epoch = NO_EPOCH
        self._doubtful_end = -1

    def expect_stamped(self, end: int, epoch: Epoch, epochs: Sequence[EpochStart]) -> None:
        self.stamped_end, self._stamping_epoch = end, epoch
        self._starts = self.epochs
        for each in epochs:
            self._begin(each)

    def restart(self) -> None:
        self.stamped_end, self._stamping_epoch = min(self.stamped_end, self.log_end), NO_EPOCH
        ends_behind_gap = len(self.all) > 1 and self.all[-2].end < self.all[-1].base
        self._doubtful_end = self.log_end if ends_behind_gap else -1

    @property
    def epochs(self) -> list[EpochStart]:
        return [each for each in self._starts if each.start < self.log_end]

    @property
    def log_start(self) -> int:
        return self._log_start

    @property
    def log_end(self) -> int:
        return max(self._log_end, self.all[-1].end) if self.all else self._log_end

    @property
    def is_end_sure(self) -> bool:
        return self.log_end != self._doubtful_end

    def producers_before(self, offset: int) -> bytes:
        return b""

    def has_valid_checksum(self, entry: Entry) -> bool:
        return True

    def entries(self, start: int, end: int) -> Iterator[Entry]:
        return iter([entry for entry in self.all if entry.end > start and entry.base < end])

    def append(self, entry: Entry) -> None:
        check(entry.base >= self.log_end or not self.all, "an entry is not where the log ends")
        self.all.append(entry)
        self._log_end = entry.end
        self._note_epoch(entry)

    def cut(self, log_end: int) -> None:
        if log_end < self._log_start:
            self.all, self._log_start = [], log_end
        self.all = [entry for entry in self.all if entry.end <= log_end]
        self._log_end = self.all[-1].end if self.all else log_end
        self._starts = [beginning for beginning in self._starts if beginning.start < log_end]
        self.stamped_end = min(self.stamped_end, log_end)

    def advance_log_start(self, offset: int) -> None:
        check(offset >= self._log_start, "a log start has fallen")
        if offset > self.log_end:
            self._starts = []
        self._log_end = max(self.log_end, offset)
        self._log_start = offset
        self.all = [entry for entry in self.all if entry.end > offset]
        begun = [beginning for beginning in self._starts if beginning.start <= offset]
        if begun:
            self._starts[: len(begun)] = [EpochStart(begun[-1].epoch, offset)]

    def compact(self, entry: Entry, *, wholly: bool) -> None:
        self._log_end = self.log_end
        at = self.all.index(entry)
        lesser = replace(entry, kind=EntryKind.COMPACTED, content=-abs(entry.content))
        self.all[at : at + 1] = [] if wholly else [lesser]

    def _note_epoch(self, entry: Entry) -> None:
        """An epoch begins with its first entry, until its bridge shows that what is before it was there already."""
        is_recovered = entry.epoch <= self._stamping_epoch and entry.base < self.stamped_end
        if not is_recovered:
            self._begin(EpochStart(entry.epoch, entry.base))
        if entry.kind is EntryKind.BRIDGE:
            starts = self._starts
            named = Epoch(entry.content)
            before = [each for each in starts if each.epoch < named and each.start < entry.base]
            newer = [EpochStart(each.epoch, max(each.start, entry.end)) for each in starts if each.epoch > named]
            self._starts = [*before, EpochStart(named, entry.base), *newer]

    def _begin(self, new: EpochStart) -> None:
        starts = self._starts
        while starts and starts[-1].start >= new.start and starts[-1].epoch < new.epoch:
            starts.pop()
        if not starts or new.epoch > starts[-1].epoch:
            starts.append(new)


class Store(Struct):
    spu: SpuId
    # On the disk:
    log: ListLog = field(default_factory=ListLog)
    synced: list[Entry] = field(default_factory=list)
    """The log as it was last synced."""
    number: int = 1
    """The number of its current incarnation."""
    promised: Epoch = NO_EPOCH
    doubt: bool = False
    checkpoint: SavedHighWatermark = field(default_factory=lambda: SavedHighWatermark(0, NO_EPOCH))
    # In the process:
    starts: int = 0
    is_up: bool = False
    role: Leader | Follower | None = None
    promise: Promise = field(default_factory=lambda: Promise(NO_EPOCH))
    high_watermark: HighWatermark = field(default_factory=lambda: HighWatermark(0))
    waiting: list[Entry] = field(default_factory=list)
    checked_end: int = 0
    """The offset up to which its committed entries were compared with the truth."""
    # What only the model knows:
    is_damaged: bool = False
    """Whether a power failure took a part of its log, and it has not caught up since."""
    is_outdated: bool = False
    """Whether a leader that lacked something was elected since its log was last compared."""

    @property
    def incarnation(self) -> str:
        return f"{self.spu}.{self.number}"

    @property
    def process(self) -> str:
        return f"process {self.starts} of {self.spu}"

    def start(self) -> None:
        self.is_up = True
        self.starts += 1
        self.log.restart()
        self.promise = Promise(self.promised)
        value = high_watermark_at_start(self.log, self.checkpoint.value)
        epoch = epoch_at_start(value, self.checkpoint.value, self.checkpoint.epoch)
        self.high_watermark = HighWatermark(value, self.promised if epoch == NO_EPOCH else epoch)
        self.checked_end = 0

    def write_down_high_watermark(self) -> None:
        self.checkpoint = SavedHighWatermark(self.high_watermark.value, self.high_watermark.epoch)

    def sync(self) -> None:
        self.synced = list(self.log.all)

    def lose_unsynced(self, chance: random.Random) -> None:
        """Loses power: any of the pages written since the last sync may have reached the disk."""
        log, before = self.log, {content_of(entry): entry for entry in self.synced}
        kept = 0
        while kept < len(log.all) and content_of(log.all[kept]) in before:
            kept += 1
        entries = log.all[: chance.randint(kept, len(log.all))]
        if len(entries) < len(log.all):
            log.cut(log.all[len(entries)].base)
        log.all = [before.get(content_of(entry), entry) if chance.random() < 0.5 else entry for entry in log.all]
        self.sync()
