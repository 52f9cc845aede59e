"""Fetches records from leaders until a `Consuming` has all that it wants."""

from collections.abc import Callable, Iterator, Mapping

import trio

from tailrace.cli.options.sc_options import say
from tailrace.cli.records.formats.consumed_record import Consumed
from tailrace.client.log_client import Fetched, LogClient
from tailrace.client.log_facts import LogEnds, Partition
from tailrace.client.server_connection import RefusedError, answer_of, answered
from tailrace.client.spu_client import PATIENCE_SECONDS, PAUSE_SECONDS_MIN
from tailrace.client.transaction_states import EndsBehind
from tailrace.protocol.error_codes import ErrorCode, KafkaError

from .consume_progress import Consuming


class LeaderReading:
    """Reads from leaders. Each partition comes in order, and partitions as they arrive."""

    def __init__(
        self, client: LogClient, reader: Consuming, may_vanish: Callable[[str], bool] = lambda topic: False
    ) -> None:
        """Takes the progress of the reader; `may_vanish` says for which topics a deletion is no error."""
        self._client = client
        self._reader = reader
        self._may_vanish = may_vanish
        self._last_wanted: dict[Partition, int] = {}
        self._patient_until = 0.0
        self._ends_behind: dict[Partition, EndsBehind] = {}
        """The ends of transactions behind the last stable offset, for partitions that are read there."""

    async def next(self) -> Iterator[tuple[Partition, list[Consumed]]]:
        """Fetches once, and returns an iterator over the partitions with their records to show.

        The iterator advances the reader partition by partition, so that only the records of one are in memory as
        objects.
        """
        wanted = self._reader.wanted
        if wanted != self._last_wanted:
            self._last_wanted = wanted
            self._patient_until = trio.current_time() + PATIENCE_SECONDS
        else:
            if self._reader.ends is not None and trio.current_time() > self._patient_until:
                partition, offset = next(iter(wanted.items()))
                raise RefusedError(
                    f"{partition}: the leader sends nothing from offset {offset} on, but the log goes on"
                )
            await trio.sleep(PAUSE_SECONDS_MIN)
        found: dict[Partition, Fetched] = {}
        for partition, answer in (await self._fetch(wanted)).items():
            if isinstance(answer, RefusedError) and answer.code == ErrorCode.OFFSET_OUT_OF_RANGE:
                enter(
                    self._reader, answered(await self._client.ends([partition], uncommitted=self._reader.uncommitted))
                )
            elif isinstance(answer, RefusedError) and self._has_vanished(partition, answer):
                say("consume", f"{partition} was deleted")
                del self._reader.positions[partition]
            else:
                found[partition] = answer_of(partition, answer)
        return ((partition, taken(self._reader, partition, fetched)) for partition, fetched in found.items())

    async def _fetch(self, wanted: Mapping[Partition, int]) -> dict[Partition, Fetched | RefusedError]:
        reader = self._reader
        if not reader.shows_transactions:
            return await self._client.fetch(wanted, uncommitted=reader.uncommitted, only_stable=reader.only_stable)
        stable = {each: offset for each, offset in wanted.items() if each not in self._ends_behind}
        found = await self._client.fetch(stable, only_stable=True) if stable else {}
        for partition, answer in found.items():
            if isinstance(answer, Fetched) and not answer.records and answer.last_stable < answer.high_watermark:
                self._ends_behind[partition] = EndsBehind(wanted[partition])
        behind = {each: offset for each, offset in wanted.items() if each in self._ends_behind}
        if behind:
            found |= await self._fetch_behind(behind)
        return found

    async def _fetch_behind(self, wanted: Mapping[Partition, int]) -> dict[Partition, Fetched | RefusedError]:
        """Fetches records behind the last stable offset, and all markers up to the end that the log has now.

        A marker may follow far behind the records of its transaction, so this reads that part of the log twice.
        """
        found = await self._client.fetch(wanted)
        for partition, answer in found.items():
            if not isinstance(answer, Fetched):
                continue
            ends = self._ends_behind[partition]
            end = answer.high_watermark
            piece: Fetched | RefusedError = answer
            while isinstance(piece, Fetched):
                before = ends.scanned_to
                _note(ends, piece)
                if ends.scanned_to >= end or (ends.scanned_to == before and piece is not answer):
                    break
                piece = (await self._client.fetch({partition: ends.scanned_to}))[partition]
            found[partition] = answer._replace(transactions=ends)
        return found

    def _has_vanished(self, partition: Partition, refused: RefusedError) -> bool:
        return refused.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and self._may_vanish(partition.topic)


def enter(reader: Consuming, logs: Mapping[Partition, LogEnds]) -> None:
    """Moves the reader into the logs, and says so for each partition in which it was outside."""
    for partition, log in logs.items():
        note = reader.move_into(partition, log)
        if note is not None:
            say("consume", note)


def _note(ends: EndsBehind, piece: Fetched) -> None:
    try:
        for each in piece.batches:
            ends.note(each.header, each.marker)
    except KafkaError:
        return  # the reader says so when it comes there


def taken(reader: Consuming, partition: Partition, fetched: Fetched) -> list[Consumed]:
    """Takes what was fetched. Raises RefusedError if it cannot be read."""
    try:
        return reader.take(partition, fetched)
    except KafkaError as error:
        raise RefusedError(f"{partition}: {error.message}", error.code) from error
