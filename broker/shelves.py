"""The shelves that this SPU keeps of partitions: it fills them from the leader, reads them for it, and lets them go.

What its specs name is kept; what they name no more stays for as long as a deleted topic can be brought back. A copy
that others count on goes on being read when it turns out to be damaged, as far as that is possible, until another one
is complete that is copied beside it: the copy of another store may be damaged too, and in another place.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager

import trio
from structlog.typing import FilteringBoundLogger

from tailrace.cluster.broker_configs import BrokerConfigs
from tailrace.cluster.specs import PartitionSpec
from tailrace.protocol.error_codes import ErrorCode, KafkaError, RemoteProtocolError
from tailrace.protocol.ids import SpuId
from tailrace.protocol.internal.fill_shelf import FillShelfRequest, FillShelfResponse, ShelvedSegment
from tailrace.protocol.internal.read_shelf import ReadShelfRequest, ReadShelfResponse
from tailrace.runtime.files import UnreadableError
from tailrace.storage.checkpoints import ReplicaKey
from tailrace.storage.layout import ShelfKey
from tailrace.storage.log import Log
from tailrace.storage.producer_state import ProducerStates
from tailrace.storage.sealed_segment import SealedSegment
from tailrace.storage.segment_recovery import LogDamagedError
from tailrace.storage.segment_scrub import SegmentScrub
from tailrace.storage.shelf_logs import ShelfLogs

from .housekeeping import KEPT_LONGER_MS_MAX
from .kept_shelves import KeptShelf, KeptShelves
from .metrics import BrokerMetrics
from .peer_codec import read_batches
from .resting import rest
from .shelf_portions import (
    NOTHING,
    Portion,
    fetch_portion,
    runs_of,
    with_rising_epochs,
)
from .spu_question import Spus

READ_BYTES_MAX = 1 << 20
"""In one answer, whatever is asked for; a larger batch comes all the same."""
FILL_SECONDS_MAX = 5.0
"""For one question; then it is answered with what there is, and asked again."""
AT_ONCE_MAX = 4
"""Portions that are on their way, over all shelves."""
MENDED_AGAIN_SECONDS = 10.0
"""Other stores may be away, or nobody leads."""
LARGEST_TIMESTAMP = -3
BY_OFFSET = -1
_EPOCH_MAX = 2**31 - 1


class DamagedShelfError(OSError):
    def __init__(self, directory: str, reason: str) -> None:
        super().__init__(reason)
        self.directory = directory


class Shelves:
    def __init__(
        self,
        spus: Spus,
        logs: ShelfLogs,
        configs: BrokerConfigs,
        metrics: BrokerMetrics,
        logger: FilteringBoundLogger,
    ) -> None:
        self._spus = spus
        self._logs = logs
        self._configs = configs
        self._metrics = metrics
        self._logger = logger
        self._kept = KeptShelves(spus.here)
        self._unnamed_since: dict[ShelfKey, float] = {}
        self._deleted_before: dict[ShelfKey, int] = {}
        """Where the logs begin whose beginning was deleted."""
        self._filling: set[ShelfKey] = set()
        self._damaged: dict[ShelfKey, str] = {}
        """Those that others count on, and that another copy is to replace; and why."""
        self._lacking: set[ShelfKey] = set()
        """Those that others count on, and that are to be filled from here."""
        self._told: dict[ShelfKey, int] = {}
        """Up to where leaders were told that it is here: they may count on it before this is said by the specs."""
        self._doubted: set[ShelfKey] = set()
        """Those that may hold more than any specs say, of an epoch whose end is no part of the log any more."""
        self._is_to_mend = trio.Event()
        self._turns = trio.Semaphore(AT_ONCE_MAX)
        self.check_room: Callable[[], None] = _always
        """Raises KafkaError where no more is to be stored here."""

    # what is to be here

    def apply(self, specs: Iterable[PartitionSpec], removed: Iterable[ReplicaKey], *, is_full: bool) -> None:
        """See `KeptShelves`."""
        doubted = self._kept.apply(specs, removed, is_full=is_full)
        self._doubted = {key for key in (*self._doubted, *doubted) if key in self._kept}
        self._damaged = {key: reason for key, reason in self._damaged.items() if key in self._kept}
        self._lacking = {key for key in self._lacking if key in self._kept}

    @property
    def count(self) -> int:
        return len(self._kept)

    @property
    def size_bytes(self) -> int:
        """Of what is to be here: what is only kept for a while does not count."""
        replacements = sum(self._logs.size_bytes(self._logs.replacement(key)) for key in self._damaged)
        return replacements + sum(self._logs.size_bytes(self._logs.directory(each.key)) for each in self._kept)

    # filling

    async def fill(self, request: FillShelfRequest) -> FillShelfResponse:
        key = ShelfKey(request.topic_id, request.partition, request.base)
        return await self._fill(key, request.end, SpuId(request.leader_id))

    async def _fill(self, key: ShelfKey, end: int, leader: SpuId) -> FillShelfResponse:
        """As far as there is time. While somebody else fills it, it is only said what there is."""
        failure = ""
        for _ in range(2):
            try:
                refused = None
                if key not in self._filling:
                    self._filling.add(key)
                    try:
                        refused = await self._copy(key, end, leader)
                    finally:
                        self._filling.discard(key)
                response = await self._state(key)
                if refused is None and key in self._damaged and not self._kept.named(key).has_others:
                    refused = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self._damaged[key])
                if refused is not None:
                    response.error_code, response.error_message = refused.code, refused.message
                return response
            except DamagedShelfError as damage:
                failure = str(damage)
                await self._on_damaged(key, damage)
            except KafkaError as error:
                return FillShelfResponse(error.code, error.message)
            except OSError as error:
                failure = str(error)
                break
        self._log(key).error("shelf_not_filled", reason=failure)
        return FillShelfResponse(ErrorCode.KAFKA_STORAGE_ERROR, failure)

    async def _copy(self, key: ShelfKey, end: int, leader: SpuId) -> KafkaError | None:
        """Why it may not be filled any further, if it may not."""
        refused: KafkaError | None = None
        deadline = trio.current_time() + FILL_SECONDS_MAX
        while (position := await self._position(key)) < end and trio.current_time() < deadline:
            try:
                self.check_room()
            except KafkaError as error:
                refused = error
                break
            portion = NOTHING
            with trio.move_on_at(deadline):
                portion = await self._fetch(key, leader, position, end)
            if key in self._doubted:
                continue
            if not portion[1] or not await self._append(key, portion, position):
                break
        await self._settle(key, end)
        return refused

    async def _position(self, key: ShelfKey) -> int:
        """From where on it is to be filled."""
        kept = self._kept.named(key)
        async with self._target(kept) as log:
            if key in self._doubted:
                # After an unclean election the log may go on in another way behind what is known to be on shelves.
                with trio.CancelScope(shield=True):
                    await log.truncate(max(kept.counted_end, kept.shelf.base))
                    await log.sync()
                self._told.pop(key, None)
                self._doubted.discard(key)
            await self._delete_before_start(kept, log)
            return max(log.log_end, kept.start)

    async def _delete_before_start(self, kept: KeptShelf, log: Log) -> None:
        """What has been deleted for good."""
        if kept.shelf.base < kept.start and log.log_start < kept.start <= log.log_end:
            with trio.CancelScope(shield=True):
                await log.advance_log_start(kept.start)

    async def _fetch(self, key: ShelfKey, leader: SpuId, position: int, end: int) -> Portion:
        async with self._turns:
            spec = self._kept.named(key).spec
            try:
                return await fetch_portion(self._spus, leader, spec, position, end)
            except (OSError, RemoteProtocolError, KafkaError) as error:
                self._log(key).warning("shelf_portion_not_copied", leader=leader, offset=position, reason=str(error))
                return NOTHING

    async def _append(self, key: ShelfKey, portion: Portion, position: int) -> bool:
        """Whether the portion goes on where the log ends."""
        async with self._target(self._kept.named(key)) as log:
            first = portion[1][0].base_offset
            if log.log_start == log.log_end or log.log_end < position:
                # A shelf may begin in the midst of a batch, as a log may.
                with trio.CancelScope(shield=True):
                    await log.truncate_fully(min(first, position))
            elif log.log_end != position or first < position:
                reason = f"a batch at offset {first} does not go on at {log.log_end}"
                self._log(key).warning("shelf_portion_not_copied", offset=position, reason=reason)
                return False
            for data, headers in runs_of(with_rising_epochs(portion, log.epochs.latest)):
                log.append_batches(data, headers)
            self._metrics.shelf_filled_bytes += len(portion[0])
            return True

    async def _settle(self, key: ShelfKey, end: int) -> None:
        """What was copied is on the disk then; and if that is all, it takes the place of what is damaged."""
        with trio.CancelScope(shield=True):
            kept = self._kept.named(key)
            async with self._target(kept) as log:
                if log.log_end >= end and log.segments()[-1].size:
                    log.producers = ProducerStates()  # nobody will ask for them
                    await log.end_segment()
                elif log.synced_end < log.log_end:
                    await log.sync()
                if log.log_end < max(self._counted_end(kept), kept.start):
                    return
            self._lacking.discard(key)
            if key in self._damaged:
                await self._logs.put_replacement_in_place(key)
                del self._damaged[key]
                self._log(key).warning("shelf_mended", end=kept.shelf.end)

    async def _state(self, key: ShelfKey) -> FillShelfResponse:
        kept = self._kept.named(key)
        async with self._target(kept) as log:
            if log.log_start == log.log_end:
                return FillShelfResponse(end=kept.start)
            end = log.synced_end
            if key in self._doubted:  # while somebody else fills it, who is about to see that
                end = min(end, max(kept.counted_end, kept.start))
            elif key not in self._damaged:
                self._told[key] = end
            segments = [
                ShelvedSegment(each.base, each.end, each.size, each.first_timestamp, each.max_timestamp)
                for each in log.segments()
                if each.size and each.end <= end
            ]
            return FillShelfResponse(end=end, segments=segments)

    # reading

    async def read(self, request: ReadShelfRequest) -> ReadShelfResponse:
        key = ShelfKey(request.topic_id, request.partition, request.base)
        try:
            kept = self._kept.named(key)
            async with self._checked(kept, self._logs.directory(kept.key)) as log:
                return self._read(kept, log, request)
        except KafkaError as error:
            return ReadShelfResponse(ErrorCode.KAFKA_STORAGE_ERROR, error.message)
        except DamagedShelfError as damage:
            await self._on_damaged(key, damage)
            return ReadShelfResponse(ErrorCode.KAFKA_STORAGE_ERROR, str(damage))
        except OSError as error:
            return ReadShelfResponse(ErrorCode.KAFKA_STORAGE_ERROR, str(error))

    def _read(self, kept: KeptShelf, log: Log, request: ReadShelfRequest) -> ReadShelfResponse:
        offset, end = max(request.offset, kept.start), request.end
        is_empty = log.log_start == log.log_end
        if log.log_end < end or (is_empty and kept.start < end):
            if end <= self._counted_end(kept):
                self._lacking.add(kept.key)
                self._is_to_mend.set()
            has = "nothing" if is_empty else f"what is before offset {log.log_end}"
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"SPU {self._spus.here} has {has} of a shelf up to {end}")
        if request.timestamp != BY_OFFSET:
            is_largest = request.timestamp == LARGEST_TIMESTAMP
            found = log.max_timestamp(end, offset) if is_largest else log.find_timestamp(request.timestamp, end, offset)
            return ReadShelfResponse() if found is None else ReadShelfResponse(0, "", *found)
        return ReadShelfResponse(records=self._batches(log, offset, end, request.bytes_max))

    def _batches(self, log: Log, offset: int, end: int, bytes_max: int) -> bytes:
        if offset >= end:
            return b""
        try:
            found = log.read(offset, min(max(0, bytes_max), READ_BYTES_MAX), end, at_least_one=True)
            records = b"" if found is None else found.read()
            read_batches(memoryview(records), _EPOCH_MAX, offset, end)
        except (KafkaError, RemoteProtocolError) as error:
            raise LogDamagedError(f"{log.directory}: {error}") from error
        self._metrics.shelf_read_bytes += len(records)
        return records

    # logs, and their damage

    @asynccontextmanager
    async def _target(self, kept: KeptShelf) -> AsyncIterator[Log]:
        """What is to be filled: of a shelf that is damaged, the copy that is to replace it. Raises OSError."""
        is_damaged = kept.key in self._damaged
        directory = self._logs.replacement(kept.key) if is_damaged else self._logs.directory(kept.key)
        async with self._checked(kept, directory) as log:
            yield log

    @asynccontextmanager
    async def _checked(self, kept: KeptShelf, directory: str) -> AsyncIterator[Log]:
        """Raises DamagedShelfError, and another OSError where nothing is known to be wrong with what is there."""
        opened: Log | None = None
        try:
            async with self._logs.using(directory) as log:
                opened = log
                if kept.start < log.log_start < log.log_end:
                    raise LogDamagedError(f"{directory} begins at offset {log.log_start}, and not at {kept.start}")
                yield log
        except OSError as error:
            has_failed = opened is not None and opened.has_failed
            if has_failed or isinstance(error, (LogDamagedError, UnreadableError)):
                raise DamagedShelfError(directory, str(error)) from error
            raise

    def _counted_end(self, kept: KeptShelf) -> int:
        return max(kept.counted_end, self._told.get(kept.key, 0))

    async def _on_damaged(self, key: ShelfKey, damage: DamagedShelfError) -> None:
        """What nobody counts on makes way for another try."""
        kept = self._kept.find(key)
        if kept is None:
            return
        if damage.directory == self._logs.directory(kept.key) and self._counted_end(kept) > kept.start:
            if key not in self._damaged:
                self._log(key).error("shelf_damaged", reason=str(damage), is_only_copy=not kept.has_others)
            self._damaged[key] = str(damage)
            self._is_to_mend.set()
            return
        self._log(key).warning("shelf_begun_anew", reason=str(damage))
        try:
            await self._logs.remove(damage.directory)
        except OSError as error:
            self._log(key).error("shelf_not_removed", reason=str(error))

    # what goes on by itself

    async def run(self) -> None:
        """Until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._mend_again_and_again)
            nursery.start_soon(self._clear_again_and_again)

    async def _mend_again_and_again(self) -> None:
        while True:
            await self._is_to_mend.wait()
            self._is_to_mend = trio.Event()
            for key in [*self._damaged, *self._lacking]:
                await self.mend(key)
            if self._damaged or self._lacking:
                await trio.sleep(MENDED_AGAIN_SECONDS)
                self._is_to_mend.set()

    async def mend(self, key: ShelfKey) -> None:
        """As far as it can be had from the leader, who has it yet, or reads it from another store."""
        kept, end = self._kept.find(key), -1
        while kept is not None and end < self._counted_end(kept):
            response = await self._fill(key, self._counted_end(kept), kept.spec.leader)
            if response.error_code or response.end <= end:
                return
            kept, end = self._kept.find(key), response.end

    async def _clear_again_and_again(self) -> None:
        while True:
            await rest(lambda: self._configs.settings.retention_check_interval_ms / 1000)
            await self.remove_unnamed()
            await self.delete_before_starts()

    async def remove_unnamed(self) -> None:
        """What has been named by no specs for so long that nobody brings it back."""
        if not self._kept.are_all_known:
            return
        now, retention_ms = trio.current_time(), self._configs.settings.deleted_topic_retention_ms
        seconds = (retention_ms + min(retention_ms, KEPT_LONGER_MS_MAX)) / 1000
        unnamed = [key for key in self._logs.found() if key not in self._kept]
        self._deleted_before = {key: start for key, start in self._deleted_before.items() if key in self._kept}
        self._told = {key: end for key, end in self._told.items() if key in self._kept}
        self._unnamed_since = {key: self._unnamed_since.get(key, now) for key in unnamed}
        for key, since in list(self._unnamed_since.items()):
            if now < since + seconds or key in self._kept:
                continue
            try:
                await self._logs.remove(self._logs.directory(key), self._logs.replacement(key))
            except OSError as error:  # tried again the next time
                self._log(key).error("shelf_not_removed", reason=str(error))
            else:
                self._log(key).info("shelf_removed")

    async def delete_before_starts(self) -> None:
        for kept in list(self._kept):
            if kept.start <= self._deleted_before.get(kept.key, kept.shelf.base):
                continue
            try:
                async with self._checked(kept, self._logs.directory(kept.key)) as log:
                    await self._delete_before_start(kept, log)
            except DamagedShelfError as damage:
                await self._on_damaged(kept.key, damage)
            except OSError as error:
                self._log(kept.key).error("shelf_not_shortened", reason=str(error))
            else:
                self._deleted_before[kept.key] = kept.start

    async def scrub(self, rest_after: Callable[[int], Awaitable[None]], is_off: Callable[[], bool]) -> None:
        """Reads all of them once more, with a rest after so many bytes."""
        for kept in list(self._kept):
            try:
                await self._scrub(kept, rest_after, is_off)
            except DamagedShelfError as damage:
                self._metrics.damaged_batches += 1
                await self._on_damaged(kept.key, damage)
            except OSError as error:
                self._log(kept.key).error("shelf_not_scrubbed", reason=str(error))

    async def _scrub(
        self, kept: KeptShelf, rest_after: Callable[[int], Awaitable[None]], is_off: Callable[[], bool]
    ) -> None:
        """What is closed meanwhile is left for the next time."""
        directory = self._logs.directory(kept.key)
        segments: Sequence[SealedSegment] = ()
        if not is_off() and self._logs.has(kept.key):
            async with self._checked(kept, directory) as log:
                segments = log.segments_at_rest()
        for segment in segments:
            scrub: SegmentScrub | None = None
            while not is_off() and (scrub is None or not scrub.is_at_end):
                async with self._checked(kept, directory):
                    if segment.is_closed:
                        break
                    scrub = scrub or SegmentScrub(segment)
                    before = scrub.position
                    damaged = scrub.step()
                    if damaged is not None:
                        raise LogDamagedError(f"{directory}: at offset {damaged.offset}: {damaged.reason}")
                    if scrub.is_at_end and not scrub.is_proven:
                        raise LogDamagedError(f"{directory}: the segment at offset {segment.base} is another one")
                self._metrics.scrubbed_bytes += scrub.position - before
                await rest_after(scrub.position - before)

    async def close(self) -> None:
        await self._logs.close()

    def _log(self, key: ShelfKey) -> FilteringBoundLogger:
        kept = self._kept.find(key)
        logger = self._logger if kept is None else self._logger.bind(topic=kept.spec.topic)
        return logger.bind(topic_id=str(key.topic_id), partition=key.partition, shelf=key.base)


def _always() -> None:
    pass
