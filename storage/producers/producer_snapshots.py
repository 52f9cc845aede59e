"""Brings back what a log knows of its producers without reading all of it: snapshots at the ends of segments."""

from collections.abc import Sequence
from contextlib import suppress

import crc32c
from msgspec.structs import replace

from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.runtime.descriptors import are_used_up
from tailrace.runtime.files import File, Files, UnreadableError
from tailrace.storage.directory.layout import Kind, file_name
from tailrace.storage.segments.batch_walk import FAR_BYTES, walk
from tailrace.storage.segments.open_segment import OpenSegment
from tailrace.storage.segments.sealed_segment import SealedSegment

from .producer_state import CHECKSUM_BYTES, ProducerStates

NO_PRODUCERS = 0
"""Instead of the checksum of a snapshot: nothing was to be written."""
NOT_WRITTEN = -1
"""The same: whether there was something, only the log can tell."""


class ProducersUnknownError(KafkaError):
    """Nothing tells of them but batches, and a header among these is none any more."""

    def __init__(self, offset: int, found: KafkaError) -> None:
        super().__init__(found.code, found.message)
        self.offset = offset
        """Of the last batch before it that looks like one, or where its segment begins."""


def checksum_of(snapshot: bytes) -> int:
    """Of what comes before its own checksum: with that behind it, the checksum of any content is the same."""
    return crc32c.crc32c(snapshot[:-CHECKSUM_BYTES])


class ProducerSnapshots:
    __slots__ = ("_directory", "_files")

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory

    def write(self, log_end: int, states: ProducerStates) -> int:
        """Returns the checksum by which the snapshot is known. It is not synced: a damaged one is not believed, and one
        that is there already, perhaps on the disk, is left alone."""
        if not len(states):
            return NO_PRODUCERS
        data = states.snapshot()
        file = self._files.open(self._path(log_end), create=True)
        try:
            is_there = file.read_at(0, file.size()) == data
        except UnreadableError:
            self.remove(log_end)
            file, is_there = self._files.open(self._path(log_end), create=True), False
        if not is_there:
            file.truncate(0)
            try:
                file.append(data)
            except OSError:
                self.remove(log_end)
                raise
        return checksum_of(data)

    def find(self, log_end: int) -> File | None:
        """The snapshot there, if it is whole and can be read."""
        return self._files.open(self._path(log_end)) if self.has(log_end) else None

    def has(self, log_end: int) -> bool:
        """A whole one."""
        return self._read(log_end, None) is not None

    def remove(self, log_end: int) -> None:
        self._files.remove(self._path(log_end))

    def load(
        self, sealed: Sequence[SealedSegment], open_segment: OpenSegment, closed_checksum: int | None
    ) -> ProducerStates:
        """From the newest snapshot that can be believed, and the batches after it. Writes those that are missing at the
        ends of these segments: when the batches are deleted nothing else will tell of their producers. Raises
        ProducersUnknownError.

        `closed_checksum` is the one of the log end, when the log was closed cleanly.
        """
        if closed_checksum is not None and (states := self._read(open_segment.end, closed_checksum)) is not None:
            return states
        segments: list[SealedSegment | OpenSegment] = [*sealed, open_segment]
        for index in range(len(sealed), 0, -1):
            before = sealed[index - 1]
            # What recovery found and nobody had entered in the manifest has no snapshot that is known to belong to it.
            if before.is_synced and (states := self._read(before.end, before.facts.producers_checksum)) is not None:
                return self._replay(states, segments[index:])
        # The segment before the first one is gone, but not what it knew.
        return self._replay(self._read(segments[0].base, None) or ProducerStates(), segments)

    def _read(self, log_end: int, checksum: int | None) -> ProducerStates | None:
        if checksum == NO_PRODUCERS:
            return ProducerStates()
        try:
            data = self._files.read(self._path(log_end))
        except OSError as error:
            if are_used_up(error):
                raise
            return None  # it is not there, or the disk does not give it: it can be done without
        states = ProducerStates.restore(data)
        if states is None:
            self.remove(log_end)  # torn, as a crash leaves it: whoever verifies the log later is not to wonder
        return states if checksum in (None, checksum_of(data)) else None

    def _replay(self, states: ProducerStates, segments: Sequence[SealedSegment | OpenSegment]) -> ProducerStates:
        for segment in segments:
            if segment.size:
                self._replay_segment(states, segment)
            if isinstance(segment, SealedSegment):
                with suppress(OSError):  # it can be done without
                    self._write_missing(segment, states)
        return states

    def _replay_segment(self, states: ProducerStates, segment: SealedSegment | OpenSegment) -> None:
        offset, end = segment.base, 0
        try:
            for position, header, _ in walk(segment.reader.log.get(), 0, segment.size, FAR_BYTES):
                if header.has_producer and header.base_sequence >= 0:
                    states.on_appended(header)
                offset, end = header.base_offset, position + header.size
            if end < segment.size:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the batch at position {end} is longer than its segment")
        except KafkaError as error:
            raise ProducersUnknownError(offset, error) from error

    def _write_missing(self, segment: SealedSegment, states: ProducerStates) -> None:
        if segment.facts.producers_checksum == NOT_WRITTEN or not self.has(segment.end):
            segment.facts = replace(segment.facts, producers_checksum=self.write(segment.end, states))

    def _path(self, log_end: int) -> str:
        return f"{self._directory}/{file_name(log_end, Kind.PRODUCERS)}"
