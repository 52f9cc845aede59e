"""Builds the Append messages that a leader sends to its followers.

Followers that keep up are at the same offset, so the last message is kept: the entries are looked up once for all of
them.
"""

from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.ids import Epoch, SpuId

from .entries import Entry, EntryLog
from .epoch_starts import EpochStart, epochs_from
from .high_watermark import HighWatermark
from .messages import Append


class AppendBuilder:
    """Builds Append messages, and keeps the last one for the other followers."""

    __slots__ = ("_bytes_max", "_epoch", "_log", "_newest")

    def __init__(self, epoch: Epoch, log: EntryLog, bytes_max: int) -> None:
        self._epoch = epoch
        self._log = log
        self._bytes_max = bytes_max
        self._newest: Append | None = None

    def append_from(
        self, base: int, log_end: int, high_watermark: HighWatermark, live_replicas: frozenset[SpuId]
    ) -> Append:
        """Builds an Append with as many entries from `base` on as fit into one message: at least one, if there is
        one."""
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
            entries = self._entries_of_one_message(base, log_end)
            if entries and entries[-1].end < min(log_end, high_watermark.value):
                # The follower lags far behind and may copy the rest from another follower. Entries there may be stamped
                # although they are not stamped here, so this message says where all committed epochs begin.
                stamped_end = max(stamped_end, high_watermark.value)
            producers = b""
            if base < log_start:  # these entries are deleted; an entry may begin before the log start
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

    def invalidate(self) -> None:
        """Drops the last message, because the log has changed before its end."""
        self._newest = None

    def sign_of_life(self, base: int, high_watermark: HighWatermark, live_replicas: frozenset[SpuId]) -> Append:
        """Builds an Append without entries, which asks for a response and announces the high watermark."""
        log = self._log
        start, end, committed = log.log_start, log.log_end, high_watermark
        return Append(self._epoch, base, (), committed.value, end, start, live_replicas, 0, (), committed.epoch)

    def _epochs_from(self, base: int, stamped_end: int) -> tuple[EpochStart, ...]:
        """Returns the starts of the epochs from `base` up to `stamped_end`, where stamps do not show them."""
        return epochs_from([each for each in self._log.epochs if each.start < stamped_end], base)

    def _entries_of_one_message(self, base: int, log_end: int) -> tuple[Entry, ...]:
        """Returns the entries of one message, without a last entry whose end the next entry does not confirm.

        If the offset of that last entry were damaged, a follower that took it would seem to have everything up to
        there. A header that cannot be read confirms nothing.
        """
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
