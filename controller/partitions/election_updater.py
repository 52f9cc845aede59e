"""Asks candidates for their log ends, and watches whether elected leaders report in time.

An SPU gets one message with all questions, however many partitions have no leader. An SPU that is still carrying out
its specs gets more time, for example just after its start: that is no reason to elect another leader. If an SPU does
not respond in time but stays connected, this keeps waiting for its response in the background. So partitions that need
the SPU do not have to wait until the next reconciliation.
"""

import math
from collections import Counter
from collections.abc import Awaitable, Callable
from heapq import heappop, heappush
from typing import Protocol

import trio
from msgspec import Struct

from tailrace.controller.objects.objects import PartitionResolution
from tailrace.controller.state.actions import AskLogEnd, AwaitLeader, ElectionAction
from tailrace.controller.state.events import Event, LeaderSilent, LogEndsReported, SpuResponded
from tailrace.controller.state.local_store import LocalStore, PartitionKey
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.ids import SpuId, TopicId
from tailrace.protocol.internal.describe_replicas import (
    DescribedTopic,
    DescribeReplicasRequest,
    DescribeReplicasResponse,
)
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.server.private_link import LinkClosed

RESPONSE_SECONDS_MAX = 1.0
LATE_RESPONSE_SECONDS_MAX = 8.0
"""How long an SPU may take to respond if its last response was late."""
RETRY_SECONDS = 0.05
"""How soon an SPU is asked again about replicas that it has not opened yet."""
BUSY_TIMES_MAX = 20
"""By how much the time for a response is multiplied while the SPU is carrying out specs."""
MANY_PARTITIONS = 50
"""How many pending leaderships of one SPU are many."""
MANY_TIMES_MAX = 5
"""By how much the time for a report is multiplied if the SPU has many pending leaderships and reports one by one.

Such an SPU is overloaded, and further elections would add to its load.
"""
LATE_DOUBLINGS_MAX = 3
"""How often that time is doubled for partitions whose last leaders reported too late.

If all SPUs are overloaded, they would otherwise only carry out elections that are given up.
"""


class Candidates(Protocol):
    """The connections to the SPUs that may be elected."""

    async def ask_spu(self, spu: SpuId, message: DescribeReplicasRequest) -> DescribeReplicasResponse:
        """Returns the SPU's response. Raises LinkClosed."""

    def is_connected(self, spu: SpuId, incarnation: str) -> bool:
        """Tells whether this process of the SPU is connected."""

    def is_carrying_out_specs(self, spu: SpuId) -> bool:
        """Tells whether the SPU has received specs and not responded to them yet."""

    def owes_response(self, spu: SpuId) -> bool:
        """Tells whether the SPU has received specs or metadata and not responded to them yet."""


class _Question(Struct):
    """A question for a log end that waits for its response."""

    action: AskLogEnd
    asked_at: float
    is_known_to_wait: bool = False
    """Whether an event has reported that the response may take some time."""


class _Deadline(Struct, order=True):
    """The time by which an elected leader should have reported."""

    at: float
    place: int
    """A serial number that keeps equal deadlines in order."""
    action: AwaitLeader
    times: int = 1
    """How often the deadline was set for the same election."""


class ElectionUpdater:
    def __init__(
        self,
        candidates: Candidates,
        local: LocalStore,
        events: Callable[[Event], Awaitable[None]],
        wait_seconds: Callable[[], float],
        logger: FilteringBoundLogger,
    ) -> None:
        """`wait_seconds` returns how long an elected leader has to report, which may change."""
        self._candidates = candidates
        self._local = local
        self._events = events
        self._wait_seconds = wait_seconds
        self._logger = logger
        self._questions: dict[SpuId, dict[PartitionKey, _Question]] = {}
        self._asking: set[SpuId] = set()
        self._listening: set[SpuId] = set()
        self._late_response_seconds: dict[SpuId, float] = {}
        """The longer time that SPUs get whose last response was late.

        Without it, a partition with only slow replicas would never get a leader.
        """
        self._awaited: dict[PartitionKey, AwaitLeader] = {}
        self._reported_at: dict[SpuId, float] = {}
        """When each SPU was last found to have reported in time that it leads."""
        self._late: dict[PartitionKey, int] = {}
        """How often in a row the elected leaders of each partition did not report in time."""
        self._deadlines: list[_Deadline] = []
        self._deadlines_made = 0
        self._wake = trio.Event()

    def take(self, action: ElectionAction) -> None:
        """Takes an action. The controllers repeat their decisions, so an action that is under way is ignored."""
        key = (action.topic_id, action.number)
        if isinstance(action, AskLogEnd):
            questions = self._questions.setdefault(action.spu, {})
            if key in questions and questions[key].action == action:
                return
            questions[key] = _Question(action, trio.current_time())
        elif self._awaited.get(key) != action:
            self._awaited[key] = action
            self._await(action, times=1)
        else:
            return
        self._wake.set()

    async def run(self) -> None:
        """Carries out the actions until it is cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                for spu in [spu for spu in self._questions if spu not in self._asking]:
                    self._asking.add(spu)
                    nursery.start_soon(self._ask, spu, nursery)
                await self._report_silent(nursery)
                with trio.move_on_at(self._deadlines[0].at if self._deadlines else math.inf):
                    await self._wake.wait()
                self._wake = trio.Event()

    async def _ask(self, spu: SpuId, nursery: trio.Nursery) -> None:
        """Asks one SPU all waiting questions, until each has a response or has timed out."""
        questions = self._questions[spu]
        while questions:
            asked = dict(questions)
            in_time = await self._ask_once(spu, asked)
            responded = in_time or {}
            now = trio.current_time()
            done, waiting = {}, {}
            for key, question in asked.items():
                if key in responded or self._has_timed_out(question, now):
                    done[key] = question
                    if questions[key] is question:
                        del questions[key]
                elif not question.is_known_to_wait:
                    question.is_known_to_wait = True
                    waiting[key] = question
            await self._report(spu, done, {key: end for key, end in responded.items() if end is not None})
            if done and in_time is None:
                self._listen_to(spu, next(iter(done)), nursery)
            await self._report(spu, waiting, {}, is_busy=True)
            if len(done) < len(asked):
                await trio.sleep(RETRY_SECONDS)
        del self._questions[spu]
        self._asking.remove(spu)

    def _listen_to(self, spu: SpuId, key: PartitionKey, nursery: trio.Nursery) -> None:
        if spu not in self._listening:
            self._listening.add(spu)
            nursery.start_soon(self._listen, spu, key)

    async def _listen(self, spu: SpuId, key: PartitionKey) -> None:
        """Waits without a limit for a silent SPU to respond to a question about any partition, or to be lost."""
        topic_id, number = key
        began = trio.current_time()
        try:
            await self._candidates.ask_spu(spu, DescribeReplicasRequest([DescribedTopic(topic_id, [number])]))
        except (LinkClosed, KafkaError):
            return  # If the SPU comes back, that is an event of its own.
        finally:
            self._listening.remove(spu)
        seconds = 2 * max(trio.current_time() - began, self._response_seconds_max(spu))
        self._late_response_seconds[spu] = min(seconds, LATE_RESPONSE_SECONDS_MAX)
        await self._events(SpuResponded(spu))

    async def _ask_once(
        self, spu: SpuId, asked: dict[PartitionKey, _Question]
    ) -> dict[PartitionKey, int | None] | None:
        """Asks the SPU and returns its log ends by partition, with None for a log that it cannot read.

        Returns None if the SPU does not respond in time.
        """
        numbers: dict[TopicId, list[int]] = {}
        for topic_id, number in asked:
            numbers.setdefault(topic_id, []).append(number)
        topics = [DescribedTopic(topic_id, each) for topic_id, each in numbers.items()]
        asked_at = trio.current_time()
        try:
            with trio.fail_after(self._response_seconds_max(spu)):
                response = await self._candidates.ask_spu(spu, DescribeReplicasRequest(topics))
        except trio.TooSlowError:
            return None
        except (LinkClosed, KafkaError):
            return {}
        if trio.current_time() < asked_at + RESPONSE_SECONDS_MAX:
            self._late_response_seconds.pop(spu, None)
        ends = {
            (each.topic_id, each.partition): None if each.error_message else each.log_end for each in response.replicas
        }
        return {
            key: ends[key]
            for key, question in asked.items()
            if key in ends and self._candidates.is_connected(spu, question.action.incarnation)
        }

    def _response_seconds_max(self, spu: SpuId) -> float:
        """Returns how long the SPU may take to respond."""
        return self._late_response_seconds.get(spu, RESPONSE_SECONDS_MAX)

    def _has_timed_out(self, question: _Question, now: float) -> bool:
        seconds = self._response_seconds_max(question.action.spu)
        if self._candidates.is_carrying_out_specs(question.action.spu):
            seconds *= BUSY_TIMES_MAX
        return now >= question.asked_at + seconds

    async def _report(
        self,
        spu: SpuId,
        questions: dict[PartitionKey, _Question],
        log_ends: dict[PartitionKey, int],
        *,
        is_busy: bool = False,
    ) -> None:
        for incarnation in dict.fromkeys(question.action.incarnation for question in questions.values()):
            asked = {
                key: question.action.epoch
                for key, question in questions.items()
                if question.action.incarnation == incarnation
            }
            ends = {key: log_ends[key] for key in asked if key in log_ends}
            is_there = self._candidates.is_connected(spu, incarnation)  # Otherwise another event reports its loss.
            if len(ends) < len(asked) and not is_busy and is_there:
                self._logger.warning("candidate_without_log_end", spu=spu, partitions=len(asked) - len(ends))
            await self._events(LogEndsReported(spu, incarnation, asked, ends, is_busy))

    # waiting for elected leaders

    def _await(self, action: AwaitLeader, times: int) -> None:
        self._deadlines_made += 1
        at = trio.current_time() + self._wait_seconds()
        heappush(self._deadlines, _Deadline(at, self._deadlines_made, action, times))

    async def _report_silent(self, nursery: trio.Nursery) -> None:
        """Reports elected leaders that have timed out.

        One that has not even responded to the news of its election is probably paused, and not unable to lead. The SC
        waits for its response in the background.
        """
        now = trio.current_time()
        due = self._take_due(now)
        if not due:
            return
        left = Counter(action.spu for action in self._awaited.values() if self._is_awaited(action))
        silent: list[AwaitLeader] = []
        for deadline in due:
            action = deadline.action
            key = (action.topic_id, action.number)
            late = self._late.get(key, 0)
            if deadline.times < self._times_max(action.spu, left[action.spu], late, now):
                self._await(action, deadline.times + 1)
            else:
                del self._awaited[key]
                self._late[key] = late + 1
                silent.append(action)
        for spu, partitions in Counter(action.spu for action in silent).items():
            self._logger.warning("leader_silent", spu=spu, partitions=partitions)
        speechless = {
            action.spu: (action.topic_id, action.number)
            for action in silent
            if self._candidates.owes_response(action.spu)
        }
        for action in silent:
            await self._events(
                LeaderSilent(action.spu, action.incarnation, action.topic_id, action.number, action.epoch)
            )
        for spu, key in speechless.items():
            self._listen_to(spu, key, nursery)

    def _take_due(self, now: float) -> list[_Deadline]:
        """Removes all expired deadlines, and returns those of leaders that have not reported."""
        due = []
        while self._deadlines and self._deadlines[0].at <= now:
            deadline = heappop(self._deadlines)
            action = deadline.action
            key = (action.topic_id, action.number)
            if self._awaited.get(key) != action:
                continue
            if self._is_awaited(action):
                due.append(deadline)
            else:
                del self._awaited[key]
                leads = self._leads(action)
                if leads:
                    self._reported_at[action.spu] = now
                if leads or action.topic_id not in self._local.topics_by_id:
                    self._late.pop(key, None)
        return due

    def _times_max(self, spu: SpuId, left: int, late: int, now: float) -> int:
        if self._candidates.is_carrying_out_specs(spu):
            return BUSY_TIMES_MAX
        if left < MANY_PARTITIONS:
            return 1
        reports = now - self._reported_at.get(spu, -math.inf) < self._wait_seconds()
        return (MANY_TIMES_MAX if reports else 1) << min(late, LATE_DOUBLINGS_MAX)

    def _leads(self, action: AwaitLeader) -> bool:
        partition = self._local.partitions.get((action.topic_id, action.number))
        if partition is None:
            return False
        return partition.status.resolution is PartitionResolution.ONLINE and partition.status.epoch == action.epoch

    def _is_awaited(self, action: AwaitLeader) -> bool:
        """Tells whether the election still waits for its leader.

        In a deleted topic no leader is awaited, although its partitions keep their status.
        """
        partition = self._local.partitions.get((action.topic_id, action.number))
        return (
            partition is not None
            and action.topic_id in self._local.topics_by_id
            and partition.status.resolution is PartitionResolution.CANDIDATE_FOUND
            and partition.status.epoch == action.epoch
        )
