"""Looks at queries, commits their progress and measures their lag, again and again, until it is stopped.

The three run as tasks of their own, so that a coordinator that does not respond delays no measurement. Every failure is
counted and logged, and the task goes on: nothing here may end the program that runs the queries.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial

import trio

from tailrace.client.group_client import TIMES_MAX, GroupClient
from tailrace.client.log_client import LogClient
from tailrace.client.log_facts import LogEnds, Partition
from tailrace.client.server_connection import RefusedError, UnreachableError, reason_of
from tailrace.client.spu_client import SpuClient
from tailrace.pipeline.jobs.broker_addresses import addresses_in_option
from tailrace.protocol.error_codes import ErrorCode
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.wall_clock import WallClock

from .group_positions import GroupPositions, KnownQuery, Offsets
from .lag_metrics import LagCounters, LagFigures
from .lag_rows import LagRow, lag_rows, unread
from .query_progress import Sight

INTERVAL_SECONDS = 1.0
"""How often each task runs. A position passes through two of them, so that it is shown within about two seconds."""
PATIENCE_SECONDS = 1.5
"""How long each of the three questions of a measurement waits for leaders. So a leader that does not respond delays the
lag of the partitions of others by less than five seconds."""
COMMIT_SECONDS = 3.0
"""How long a commit waits for coordinators. So one that does not respond delays the groups of others by less than five
seconds."""
LOOK_SECONDS = 10.0
"""How long the keeper waits for a look when it is stopped."""
LAST_SECONDS_MAX = 15.0
"""How long the last look and the last commit may take when the keeper is stopped."""
PROBLEMS_MAX = 100
"""How many different problems of looks are logged, each once."""

Work = Callable[[], Awaitable[bool]]
"""Does a piece of work. Returns whether no failure of an earlier time is left."""
Look = Callable[[], Awaitable[Sight]]
"""Asks for what has happened to queries since the last look."""


class LagKeeper:
    """Keeps the groups and the figures of all queries up to date."""

    def __init__(
        self,
        look: Look,
        positions: GroupPositions,
        spus: SpuClient,
        wall_clock: WallClock,
        logger: FilteringBoundLogger,
        interval_seconds: float = INTERVAL_SECONDS,
        *,
        asks_brokers_of_queries: bool = False,
    ) -> None:
        """Takes what the keeper works with. `asks_brokers_of_queries` says that `spus` only has a default."""
        self.counters = LagCounters()
        self.rows: tuple[LagRow, ...] = ()
        """The last measurement. It is replaced as a whole, so that other threads may read it."""
        self._look = look
        self._positions = positions
        self._committing = spus
        self._groups = GroupClient(spus)
        self._hasty = spus.impatient(COMMIT_SECONDS)
        self._hasty_groups = GroupClient(self._hasty)
        self._measuring = spus.impatient(PATIENCE_SECONDS)
        self._logs = LogClient(self._measuring)
        self._wall_clock = wall_clock
        self._logger = logger
        self._interval_seconds = interval_seconds
        self._awaits_brokers = asks_brokers_of_queries
        self._early = trio.Event()
        self._looking = trio.Lock()
        self._measured_ms: int | None = None
        self._times: dict[Partition, tuple[int, int | None]] = {}
        """The timestamp of the record at an offset of each partition that lags. Records never change."""
        self._said: dict[str, str] = {}
        """The last failure of each kind, so that each is logged once."""
        self._said_problems: set[str] = set()

    def figures(self) -> LagFigures:
        """Returns what metrics show now."""
        measured_ms = self._measured_ms
        age = None if measured_ms is None else max(0.0, (self._wall_clock.now_ms() - measured_ms) / 1000)
        return LagFigures(self.rows, age)

    async def run(self, stop: trio.Event) -> None:
        """Runs until it is asked to stop, and then looks and commits for the last time."""
        try:
            async with trio.open_nursery() as nursery:
                for name, work in self._tasks(self._hasty_groups):
                    nursery.start_soon(self._repeat, name, work)
                nursery.start_soon(self._look_early)
                await stop.wait()
                with trio.move_on_after(LOOK_SECONDS):
                    async with self._looking:  # a look that is cancelled would lose what it has heard
                        nursery.cancel_scope.cancel()
                nursery.cancel_scope.cancel()
            with trio.move_on_after(LAST_SECONDS_MAX):
                await self.run_once()
        finally:
            for each in (self._committing, self._hasty, self._measuring):
                each.close()

    async def run_once(self) -> None:
        """Looks, commits and measures once. Failures are counted and logged."""
        for name, work in self._tasks(self._groups):
            await self._attempt(name, work)

    async def check_once(self) -> None:
        """Looks, commits and measures once. Raises RefusedError, UnreachableError, and what the look raises."""
        for _, work in self._tasks(self._groups):
            await work()

    def look_soon(self) -> None:
        """Brings the next look forward, because a query has started that may end before it is due."""
        self._early.set()

    async def _look_early(self) -> None:
        while True:
            await self._early.wait()
            self._early = trio.Event()
            await self._attempt("look", self._take_a_look)

    def _tasks(self, groups: GroupClient) -> tuple[tuple[str, Work], ...]:
        return ("look", self._take_a_look), ("commit", partial(self._commit, groups)), ("measure", self._measure)

    async def _repeat(self, name: str, work: Work) -> None:
        while True:
            began = trio.current_time()
            await self._attempt(name, work)
            await trio.sleep_until(began + self._interval_seconds)

    async def _attempt(self, name: str, work: Work) -> None:
        """Runs one piece of work. A failure is counted and logged; only a cancellation ends it."""
        try:
            is_whole = await work()
        except (RefusedError, UnreachableError) as error:
            self._on_failure(name, reason_of(error))
        except Exception as error:
            self._on_failure(name, f"{type(error).__name__}: {error}")
        else:
            if is_whole:
                self._said.pop(name, None)

    def _on_failure(self, name: str, why: str) -> None:
        match name:
            case "look":
                self.counters.failed_looks += 1
            case "commit":
                self.counters.failed_commits += 1
            case _:
                self.counters.failed_measurements += 1
        if self._said.get(name) != why:
            self._said[name] = why
            self._logger.warning("lag_attempt_failed", what=name, reason=why)

    async def _take_a_look(self) -> bool:
        async with self._looking:
            sight = await self._look()
        for event in sight.events:
            self._positions.on_event(event)
        for problem in sight.problems:
            if problem not in self._said_problems and len(self._said_problems) < PROBLEMS_MAX:
                self._said_problems.add(problem)
                self._logger.warning("progress_unreadable", reason=problem)
        if sight.failure is not None:
            raise sight.failure
        self.counters.looks += 1
        if sight.brokers and self._awaits_brokers:
            brokers = addresses_in_option(sight.brokers)
            self._awaits_brokers = False
            for each in (self._committing, self._hasty, self._measuring):
                each.start_at(brokers)
        return True

    async def _commit(self, groups: GroupClient) -> bool:
        due = self._positions.due(trio.current_time())
        failures: list[str] = []
        for group, answers in (await groups.commit_each(due)).items() if due else ():
            if isinstance(answers, RefusedError):
                failures.append(f"group {group}: {reason_of(answers)}")
            else:
                failures += self._on_answers(group, due[group], answers)
        if failures:
            raise RefusedError(failures[0])
        return not self._positions.has_refused

    def _on_answers(
        self, group: str, offsets: Offsets, answers: Mapping[Partition, RefusedError | None]
    ) -> Iterable[str]:
        """Notes what a coordinator has accepted. Returns why it has refused partitions."""
        now = trio.current_time()
        refused = {each: why for each, why in answers.items() if why is not None}
        self._positions.on_committed(group, {each: offsets[each] for each in offsets if each not in refused}, now)
        self._positions.on_refused(group, {each: offsets[each] for each in offsets if each in refused}, now)
        self.counters.commits += len(answers) - len(refused)
        return [f"group {group}, {each}: {reason_of(why)}" for each, why in refused.items()]

    async def _measure(self) -> bool:
        began_ms = self._wall_clock.now_ms()
        queries = self._positions.queries
        wanted = sorted({each for query in queries for each in query.positions})
        answers = await self._logs.ends(wanted)
        ends = {each: end for each, end in answers.items() if isinstance(end, LogEnds)}
        rows: list[LagRow] = []
        for query in queries:
            times = await self._times_of(query, ends)
            rows += lag_rows(query, ends, times, began_ms)
        self.rows = tuple(rows)
        self._times = {each: found for each, found in self._times.items() if each in ends}
        read = {each for query in queries if query.is_active for each in query.positions}
        for each, why in answers.items():
            # The topic of a query that has ended may be deleted.
            if isinstance(why, RefusedError) and (each in read or why.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                raise RefusedError(f"{each}: {reason_of(why)}")
        self._measured_ms = began_ms
        return True

    async def _times_of(self, query: KnownQuery, ends: dict[Partition, LogEnds]) -> dict[Partition, int | None]:
        """Returns timestamps of first unread records. Only those of records that are new here are fetched."""
        lagging = unread(query, ends)
        known = {each: self._times[each][1] for each in lagging if self._time_is_known(each, lagging[each])}
        missing = {each: offset for each, offset in lagging.items() if each not in known}
        fetched = await self._logs.timestamps(dict(list(missing.items())[:TIMES_MAX])) if missing else {}
        self._times |= {each: (lagging[each], found) for each, found in fetched.items() if found is not None}
        return known | fetched

    def _time_is_known(self, partition: Partition, offset: int) -> bool:
        return partition in self._times and self._times[partition][0] == offset
