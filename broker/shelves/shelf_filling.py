"""Fills the shelves that are kept here, with what their leaders hand over; and tells leaders what there is."""

from collections.abc import Callable

import trio

from tailrace.broker.copies.spu_requests import SpuRequests
from tailrace.broker.spu_counters import BrokerMetrics
from tailrace.protocol.error_codes import ErrorCode, KafkaError, RemoteProtocolError
from tailrace.protocol.ids import SpuId
from tailrace.protocol.internal.fill_shelf import FillShelfRequest, FillShelfResponse, ShelvedSegment
from tailrace.storage.directory.layout import ShelfKey
from tailrace.storage.producers.producer_state import ProducerStates

from .shelf_copies import DamagedShelfError, ShelfCopies, delete_before_start
from .shelf_portions import NOTHING, Portion, fetch_portion, runs_of, with_rising_epochs

FILL_SECONDS_MAX = 5.0
"""For one question; then it is answered with what there is, and asked again."""
AT_ONCE_MAX = 4
"""Portions that are on their way, over all shelves."""


class ShelfFilling:
    def __init__(
        self, copies: ShelfCopies, spu_requests: SpuRequests, check_room: Callable[[], None], metrics: BrokerMetrics
    ) -> None:
        """`check_room` raises KafkaError where no more is to be stored here."""
        self._copies = copies
        self._spu_requests = spu_requests
        self._check_room = check_room
        self._metrics = metrics
        self._busy: set[ShelfKey] = set()
        self._turns = trio.Semaphore(AT_ONCE_MAX)

    async def answer(self, request: FillShelfRequest) -> FillShelfResponse:
        key = ShelfKey(request.topic_id, request.partition, request.base)
        kept = self._copies.kept.find(key)
        if kept is not None and kept.spec.leader != request.leader_id:
            # Its log may have what an unclean election has ended, and this store has cut that off.
            reason = f"as far as is known here, SPU {kept.spec.leader} leads, and SPU {request.leader_id} does not"
            return FillShelfResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, reason)
        return await self.fill(key, request.end, SpuId(request.leader_id))

    async def fill(self, key: ShelfKey, end: int, leader: SpuId) -> FillShelfResponse:
        """As far as there is time. While somebody else fills it, it is only said what there is."""
        failure = ""
        for _ in range(2):
            try:
                refused = None
                if key not in self._busy:
                    self._busy.add(key)
                    try:
                        refused = await self._copy(key, end, leader)
                    finally:
                        self._busy.discard(key)
                response = await self._state(key)
                damaged = self._copies.damaged
                if refused is None and key in damaged and not self._copies.kept.named(key).has_others:
                    refused = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, damaged[key].reason)
                if refused is not None:
                    response.error_code, response.error_message = refused.code, refused.message
                return response
            except DamagedShelfError as damage:
                failure = str(damage)
            except KafkaError as error:
                return FillShelfResponse(error.code, error.message)
            except OSError as error:
                failure = str(error)
                break
        self._copies.log(key).error("shelf_not_filled", reason=failure)
        return FillShelfResponse(ErrorCode.KAFKA_STORAGE_ERROR, failure)

    async def _copy(self, key: ShelfKey, end: int, leader: SpuId) -> KafkaError | None:
        """Why it may not be filled any further, if it may not."""
        refused: KafkaError | None = None
        deadline = trio.current_time() + FILL_SECONDS_MAX
        while (position := await self._position(key)) < end and trio.current_time() < deadline:
            try:
                self._check_room()
            except KafkaError as error:
                refused = error
                break
            portion = NOTHING
            with trio.move_on_at(deadline):
                portion = await self._fetch(key, leader, position, end)
            if key in self._copies.doubted:
                continue
            if not portion[1] or not await self._append(key, portion, position):
                break
        await self._settle(key, end)
        return refused

    async def _position(self, key: ShelfKey) -> int:
        """From where on it is to be filled."""
        kept = self._copies.kept.named(key)
        async with self._copies.to_fill(kept) as log:
            if key in self._copies.doubted:
                # After an unclean election the log may go on in another way behind what is known to be on shelves.
                with trio.CancelScope(shield=True):
                    await log.truncate(max(kept.counted_end, kept.shelf.base))
                    await log.sync()
                self._copies.on_cut(key)
            await delete_before_start(kept, log)
            return max(log.log_end, kept.start)

    async def _fetch(self, key: ShelfKey, leader: SpuId, position: int, end: int) -> Portion:
        async with self._turns:
            spec = self._copies.kept.named(key).spec
            if spec.leader != leader:
                return NOTHING  # another one was elected meanwhile
            try:
                return await fetch_portion(self._spu_requests, leader, spec, position, end)
            except (OSError, RemoteProtocolError, KafkaError) as error:
                self._copies.log(key).warning(
                    "shelf_portion_not_copied", leader=leader, offset=position, reason=str(error)
                )
                return NOTHING

    async def _append(self, key: ShelfKey, portion: Portion, position: int) -> bool:
        """Whether the portion goes on where the log ends."""
        async with self._copies.to_fill(self._copies.kept.named(key)) as log:
            first = portion[1][0].base_offset
            if log.log_start == log.log_end or log.log_end < position:
                # A shelf may begin in the midst of a batch, as a log may.
                with trio.CancelScope(shield=True):
                    await log.truncate_fully(min(first, position))
            elif log.log_end != position or first < position:
                reason = f"a batch at offset {first} does not go on at {log.log_end}"
                self._copies.log(key).warning("shelf_portion_not_copied", offset=position, reason=reason)
                return False
            for data, headers in runs_of(with_rising_epochs(portion, log.epochs.latest)):
                log.append_batches(data, headers)
            self._metrics.shelf_filled_bytes += len(portion[0])
            return True

    async def _settle(self, key: ShelfKey, end: int) -> None:
        """What was copied is on the disk then; and if that is all, it takes the place of what is damaged."""
        with trio.CancelScope(shield=True):
            kept, is_replacement = self._copies.kept.named(key), key in self._copies.damaged
            async with self._copies.to_fill(kept) as log:
                if log.log_end >= end and log.segments()[-1].size:
                    log.producers = ProducerStates()  # nobody will ask for them
                    await log.end_segment()
                elif log.synced_end < log.log_end:
                    await log.sync()
                if log.log_end < max(self._copies.counted_end(kept), kept.start):
                    return
            await self._copies.on_complete(kept, is_replacement=is_replacement)

    async def _state(self, key: ShelfKey) -> FillShelfResponse:
        kept = self._copies.kept.named(key)
        async with self._copies.to_fill(kept) as log:
            if log.log_start == log.log_end:
                return FillShelfResponse(end=kept.start)
            end = log.synced_end
            if key in self._copies.doubted:  # while somebody else fills it, who is about to see that
                end = min(end, max(kept.counted_end, kept.start))
            elif key not in self._copies.damaged:
                self._copies.on_told(key, end)
            segments = [
                ShelvedSegment(each.base, each.end, each.size, each.first_timestamp, each.max_timestamp)
                for each in log.segments()
                if each.size and each.end <= end
            ]
            return FillShelfResponse(end=end, segments=segments)
