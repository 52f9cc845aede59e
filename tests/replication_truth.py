"""What is true in the model, whatever the stores believe: what was acknowledged and committed, deleted and compacted.

Each method that checks something raises InvariantError with the sentence that does not hold.
"""

from collections import Counter
from collections.abc import Collection

from replication_store import Content, Store, check, content_of

from tailrace.broker.replication.entries import Entry, EntryKind
from tailrace.protocol.ids import Epoch


class Truth:
    def __init__(self) -> None:
        self.acknowledged: list[Entry] = []
        self.committed: list[Content] = []
        """Everything that was ever below a high watermark, in order."""
        self.unclean_epoch = -1
        """Of the last leader that may have lacked something: what earlier ones think they commit counts for nothing."""
        self._committed_at: dict[int, Content] = {}
        self._stamped: dict[tuple[int, int], Content] = {}
        self._is_known = True
        """What that leader has."""
        self._deleted_to = 0
        self._deleted_for_good = 0
        self._compacted: set[Content] = set()
        self._read_at: dict[Epoch, int] = {}
        """Of each epoch that consumers have read: where the last such record ends."""
        self._asked_epoch = -1
        self._next_content = 1
        self._origins: dict[int, tuple[Epoch, int]] = {}
        """Of each record: the epoch in which it was produced, and how many records were before it in that epoch."""
        self._produced: Counter[Epoch] = Counter()
        self._came_through: Counter[Epoch] = Counter()

    # what happens

    def next_entry(self, base: int, end: int, epoch: Epoch) -> Entry:
        entry = Entry(base, end, epoch, self._next_content)
        self._origins[self._next_content] = epoch, self._produced[epoch]
        self._produced[epoch] += 1
        self._next_content += 1
        return entry

    def on_stamped(self, entry: Entry) -> None:
        content = content_of(entry)
        known = self._stamped.setdefault((entry.epoch, entry.base), content)
        check(known == content, "an epoch and an offset name two")

    def on_acknowledged(self, entries: Collection[Entry], epoch: Epoch) -> None:
        if epoch >= self.unclean_epoch:
            self.acknowledged.extend(entries)

    def on_deleted(self, log_start: int) -> None:
        self._deleted_to = max(self._deleted_to, log_start)

    def on_deleted_for_good(self, end: int) -> None:
        """Notes that a client was told that the records before `end` are deleted."""
        self._deleted_for_good = max(self._deleted_for_good, end)

    def on_readable(self, store: Store, start: int) -> None:
        """Consumers may have read from a leader's log what became committed."""
        for entry in store.log.entries(start, store.high_watermark.value):
            self._read_at[entry.epoch] = max(self._read_at.get(entry.epoch, 0), entry.end)

    def on_compacted(self, entry: Entry) -> None:
        self._compacted.add(content_of(entry))

    def on_unclean_election(self, epoch: Epoch) -> None:
        self.unclean_epoch = epoch
        self._is_known = False

    def on_led(self, store: Store) -> None:
        """What the first leader since an unclean election has is true from now on, and nothing else."""
        if self._is_known:
            return
        self._is_known = True
        self._read_at.clear()
        self._deleted_to = self._deleted_for_good = store.log.log_start
        held = {entry.base: content_of(entry) for entry in store.log.all}
        kept = 0
        for content in self.committed:
            base, end = content[:2]
            if held.get(base) != content and not (base not in held and self.is_gone(content)):
                break
            if end > store.log.log_end:
                break
            kept += 1
        del self.committed[kept:]
        self._committed_at = {content[0]: content for content in self.committed}
        self.acknowledged = [
            entry
            for entry in self.acknowledged
            if self._committed_at.get(entry.base) == content_of(entry) or held.get(entry.base) == content_of(entry)
        ]
        self._came_through = Counter(
            self._origins[content][0] for _, _, kind, content in self.committed if kind is EntryKind.EVENT
        )

    # what must hold

    def check_committed(self, store: Store) -> None:
        """Checks that a store has the committed log below its high watermark, with all acknowledged records."""
        end = store.high_watermark.value
        check(end <= store.log.log_end, "a high watermark lies beyond its log")
        for entry in store.log.entries(store.checked_end, end):
            check(entry.end <= end, "a high watermark lies within an entry")
            content = content_of(entry)
            if entry.base not in self._committed_at:
                known_end = self.committed[-1][1] if self.committed else 0
                check(
                    entry.base == known_end or self.unclean_epoch >= 0, "something committed has not been there before"
                )
                self.committed.append(content)
                self._committed_at[entry.base] = content
                self._check_order(content)
            check(self._committed_at[entry.base] == content, "two logs differ below the high watermark")
        store.checked_end = end

    def check_may_be_read(self, content: Content) -> None:
        """By one who takes it for acknowledged: it is committed, or will be."""
        check(self._committed_at.get(content[0], content) == content, "somebody read what is not committed")

    def check_holds_acknowledged(self, store: Store) -> None:
        """Checks that a serving leader has every acknowledged record at its offset."""
        entries = {entry.base: content_of(entry) for entry in store.log.all}
        for entry in self.acknowledged:
            if entries.get(entry.base) != content_of(entry):
                check(self.is_gone(content_of(entry)), "a leader lacks something that was acknowledged")

    def check_epochs(self, store: Store, epoch: Epoch) -> None:
        """A new leader does not tell a consumer that an epoch ended before what it has read of it."""
        if epoch == self._asked_epoch:
            return
        self._asked_epoch = epoch
        for read_epoch, end in self._read_at.items():
            ended_at = min((start for each, start in store.log.epochs if each > read_epoch), default=store.log.log_end)
            check(ended_at >= end, f"a leader says that epoch {read_epoch} ended at {ended_at}, and {end} was read")

    def check_stays_deleted(self, store: Store) -> None:
        check(store.log.log_start >= self._deleted_for_good, "a leader has something that was deleted for good")

    def check_is_whole(self, store: Store) -> None:
        """Checks that a store has everything that is committed, and nothing else."""
        contents = {content_of(entry) for entry in store.log.all}
        check(contents <= set(self.committed), f"{store.spu} has something that nobody committed")
        for content in self.committed:
            if content not in contents:
                check(self.is_gone(content), f"{store.spu} lacks something that is committed")

    def holds(self, store: Store, entry: Entry, entries: Collection[Entry]) -> bool:
        content = content_of(entry)
        return self.is_gone(content) or any(content_of(held) == content for held in entries)

    def is_gone(self, content: Content) -> bool:
        return content[1] <= self._deleted_to or content in self._compacted

    def _check_order(self, content: Content) -> None:
        """What comes through of an epoch is a beginning of it: no record without those before it."""
        if content[2] is EntryKind.EVENT and self.unclean_epoch < 0:
            epoch, place = self._origins[content[3]]
            is_alone = content[0] <= self._deleted_to  # and nobody can tell whose it is
            check(place == self._came_through[epoch] or is_alone, "a record came through without one before it")
            self._came_through[epoch] = place + 1
