"""Fills this SPU's copies of shelves with records from the leaders, and tells the leaders what the copies have.

This is the storing SPU's side.
"""

from collections.abc import Callable

import trio

from tailrace.broker.copies.spu_requests import SpuRequests
from tailrace.broker.spu_counters import BrokerMetrics
from tailrace.protocol.error_codes import ErrorCode, KafkaError, RemoteProtocolError
from tailrace.protocol.ids import SpuId
from tailrace.protocol.internal.fill_shelf import FillShelfRequest, FillShelfResponse, ShelvedSegment
from tailrace.storage.directory.layout import ShelfKey

from .shelf_copies import DamagedShelfError, ShelfCopies, delete_before_start
from .shelf_portions import NOTHING, AbortedFirsts, Portion, fetch_portion, runs_of, with_rising_epochs

FILL_SECONDS_MAX = 5.0
"""How long one request fills. The response then says how far the copy is, and the leader asks again."""
NONE_ABORTED: AbortedFirsts = {}
AT_ONCE_MAX = 4
"""How many portions may be on their way at once, over all shelves."""


class ShelfFilling:
    """Fills copies on request of their leaders, and for their repair."""

    def __init__(
        self, copies: ShelfCopies, spu_requests: SpuRequests, check_room: Callable[[], None], metrics: BrokerMetrics
    ) -> None:
        """`check_room` raises KafkaError if this SPU must not store more records."""
        self._copies = copies
        self._spu_requests = spu_requests
        self._check_room = check_room
        self._metrics = metrics
        self._busy: set[ShelfKey] = set()
        """The copies that are being filled."""
        self._turns = trio.Semaphore(AT_ONCE_MAX)

    async def respond(self, request: FillShelfRequest) -> FillShelfResponse:
        """Responds to a leader's request to fill a copy."""
        key = ShelfKey(request.topic_id, request.partition, request.base)
        duty = self._copies.duties.find(key)
        if duty is not None and duty.spec.leader != request.leader_id:
            # After an unclean election, the old leader may still have records that this copy has truncated.
            reason = f"by the specs of this SPU, SPU {duty.spec.leader} is the leader, and not SPU {request.leader_id}"
            return FillShelfResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, reason)
        return await self.fill(key, request.end, SpuId(request.leader_id))

    async def fill(self, key: ShelfKey, end: int, leader: SpuId) -> FillShelfResponse:
        """Fills a copy up to `end`, as far as the time allows, and says what it has.

        While another task fills the same copy, only says what it has.
        """
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
                if refused is None and key in damaged and not self._copies.duties.require(key).has_others:
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
        self._copies.logger_of(key).error("shelf_not_filled", reason=failure)
        return FillShelfResponse(ErrorCode.KAFKA_STORAGE_ERROR, failure)

    async def _copy(self, key: ShelfKey, end: int, leader: SpuId) -> KafkaError | None:
        """Copies portions until the copy reaches `end`, or the time is over.

        Returns the error of `check_room`, if it stopped the copy.
        """
        refused: KafkaError | None = None
        deadline = trio.current_time() + FILL_SECONDS_MAX
        while (position := await self._position(key)) < end and trio.current_time() < deadline:
            try:
                self._check_room()
            except KafkaError as error:
                refused = error
                break
            portion, aborted = NOTHING, NONE_ABORTED
            with trio.move_on_at(deadline):
                portion, aborted = await self._fetch(key, leader, position, end)
            if key in self._copies.maybe_diverged:
                continue
            if not portion[1] or not await self._append(key, portion, aborted, position):
                break
        await self._finish(key, end)
        return refused

    async def _position(self, key: ShelfKey) -> int:
        """Returns the offset from which the copy is to be filled; truncates it first, if it may have diverged."""
        duty = self._copies.duties.require(key)
        async with self._copies.open_to_fill(duty) as log:
            if key in self._copies.maybe_diverged:
                # After an unclean election, the log may differ from the copy beyond what the specs confirm.
                with trio.CancelScope(shield=True):
                    await log.truncate(max(duty.confirmed_end, duty.shelf.base))
                    await log.sync()
                self._copies.on_truncated(key)
            doubtful = log.transactions.doubtful_from
            if doubtful is not None:
                # A crash may have lost which of the last transactions were aborted. The leader tells it again.
                doubtful = max(doubtful, duty.confirmed_end, duty.start)
                if doubtful < log.log_end:
                    with trio.CancelScope(shield=True):
                        await log.truncate(doubtful)
            await delete_before_start(duty, log)
            return max(log.log_end, duty.start)

    async def _fetch(self, key: ShelfKey, leader: SpuId, position: int, end: int) -> tuple[Portion, AbortedFirsts]:
        async with self._turns:
            spec = self._copies.duties.require(key).spec
            if spec.leader != leader:
                return NOTHING, NONE_ABORTED  # another leader was elected meanwhile
            try:
                return await fetch_portion(self._spu_requests, leader, spec, position, end)
            except (OSError, RemoteProtocolError, KafkaError) as error:
                self._copies.logger_of(key).warning(
                    "shelf_portion_not_copied", leader=leader, offset=position, reason=str(error)
                )
                return NOTHING, NONE_ABORTED

    async def _append(self, key: ShelfKey, portion: Portion, aborted: AbortedFirsts, position: int) -> bool:
        """Appends a portion; returns False if it does not continue the copy."""
        async with self._copies.open_to_fill(self._copies.duties.require(key)) as log:
            first = portion[1][0].base_offset
            if log.log_start == log.log_end or log.log_end < position:
                # A shelf may begin within a batch, as a log may.
                with trio.CancelScope(shield=True):
                    await log.truncate_fully(min(first, position))
            elif log.log_end != position or first < position:
                reason = f"a batch at offset {first} does not continue a copy that ends at offset {log.log_end}"
                self._copies.logger_of(key).warning("shelf_portion_not_copied", offset=position, reason=reason)
                return False
            for data, headers in runs_of(with_rising_epochs(portion, log.epochs.latest)):
                log.append_batches(data, headers)
            log.transactions.foretell(aborted)
            self._metrics.shelf_filled_bytes += len(portion[0])
            return True

    async def _finish(self, key: ShelfKey, end: int) -> None:
        """Syncs what was copied, and reports the copy as complete if it has everything on which others rely."""
        with trio.CancelScope(shield=True):
            duty, is_replacement = self._copies.duties.require(key), key in self._copies.damaged
            async with self._copies.open_to_fill(duty) as log:
                if log.log_end >= end and log.segments()[-1].size:
                    log.forget_producers()
                    await log.end_segment()
                    await log.sync_foretold()
                elif log.synced_end < log.log_end:
                    await log.sync()
                if log.log_end < max(self._copies.confirmed_end(duty), duty.start):
                    return
            await self._copies.on_complete(duty, is_replacement=is_replacement)

    async def _state(self, key: ShelfKey) -> FillShelfResponse:
        """Says what the copy has on the disk, and notes that the leader may rely on it."""
        duty = self._copies.duties.require(key)
        async with self._copies.open_to_fill(duty) as log:
            if log.log_start == log.log_end:
                return FillShelfResponse(end=duty.start)
            end = log.synced_end
            if key in self._copies.maybe_diverged:  # another task fills the copy, and is about to truncate it
                end = min(end, max(duty.confirmed_end, duty.start))
            elif key not in self._copies.damaged:
                self._copies.on_confirmed(key, end)
            segments = [
                ShelvedSegment(each.base, each.end, each.size, each.first_timestamp, each.max_timestamp)
                for each in log.segments()
                if each.size and each.end <= end
            ]
            return FillShelfResponse(end=end, segments=segments)
