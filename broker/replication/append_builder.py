"""What a leader's log says next, to a follower that has it up to some offset.

Followers that keep up are at the same place, so what the first one is told, the others are told too: the entries are
looked up once.
"""

from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.ids import Epoch, SpuId

from .entries import Entry, EntryLog
from .epoch_starts import EpochStart, epochs_from
from .high_watermark import HighWatermark
from .messages import Append


class AppendBuilder:
    __slots__ = ("_bytes_max", "_epoch", "_log", "_newest")

    def __init__(self, epoch: Epoch, log: EntryLog, bytes_max: int) -> None:
        self._epoch = epoch
        self._log = log
        self._bytes_max = bytes_max
        self._newest: Append | None = None

    def next_from(
        self, base: int, log_end: int, high_watermark: HighWatermark, live_replicas: frozenset[SpuId]
    ) -> Append:
        """Of a log that ends there, as many entries as one message takes, and at least one, if there is any."""
        newest = self._newest
        if (
            newest is None
            or not newest.entries
            or newest.base != base
            or newest.log_end != log_end
            or newest.high_watermark != high_watermark.value
            or newest.live_replicas is not live_replicas
        ):
            log_start, stamped_end = self._log.log_start, self._log.stamped_end
            entries = self._as_one_message_takes(base, log_end)
            if entries and entries[-1].end < min(log_end, high_watermark.value):
                # It is far behind, and may have the rest from elsewhere: stamped or not, epochs begin as they do here.
                stamped_end = max(stamped_end, high_watermark.value)
            producers = b""
            if base < log_start:  # that is deleted, and an entry may begin before the log does
                base = min(entries[0].base, log_start) if entries else log_start
                producers = self._log.producers_before(base)
            newest = self._newest = Append(
                self._epoch,
                base,
                entries,
                high_watermark.value,
                log_end,
                log_start,
                live_replicas,
                stamped_end,
                self._epochs_from(base, stamped_end) if base < stamped_end else (),
                high_watermark.epoch,
                producers,
            )
        return newest

    def forget(self) -> None:
        """The log has changed elsewhere than at its end: what the last follower was told may not be there any more."""
        self._newest = None

    def nothing_from(self, base: int, high_watermark: HighWatermark, live_replicas: frozenset[SpuId]) -> Append:
        """A sign of life."""
        log = self._log
        start, end, committed = log.log_start, log.log_end, high_watermark
        return Append(self._epoch, base, (), committed.value, end, start, live_replicas, 0, (), committed.epoch)

    def _epochs_from(self, base: int, stamped_end: int) -> tuple[EpochStart, ...]:
        """To which the entries belong that recovery has stamped."""
        return epochs_from([each for each in self._log.epochs if each.start < stamped_end], base)

    def _as_one_message_takes(self, base: int, log_end: int) -> tuple[Entry, ...]:
        """None is the last whose end the next one does not confirm: were its offset damaged, a follower that took it
        would seem to have all up to there. A header that cannot be read confirms nothing."""
        entries: list[Entry] = []
        size = 0
        try:
            for entry in self._log.entries(base, log_end):
                size += entry.size
                if entries and size > self._bytes_max and entries[-1].end <= entry.base:
                    break
                entries.append(entry)
        except KafkaError:
            del entries[-1:]
        return tuple(entries)
