"""Tests the keeper with a whole SPU; the queries are what the test says."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import structlog
import trio
from grouped_spu import GroupedSpu, grouped_spu
from msgspec import Struct, field
from spark_progress import ID, RUN
from spus import ADDRESS
from structlog.testing import capture_logs

from tailrace.client.group_client import GroupClient
from tailrace.client.log_facts import Partition
from tailrace.client.server_connection import RefusedError, UnreachableError
from tailrace.client.spu_client import BOOTSTRAP, SpuClient
from tailrace.pipeline.lag.group_positions import GroupPositions
from tailrace.pipeline.lag.lag_keeper import LAST_SECONDS_MAX, LOOK_SECONDS, LagKeeper
from tailrace.pipeline.lag.query_progress import QueryEnded, QueryProgress, Sight
from tailrace.runtime.network import Address

ONE, TWO = Partition("orders", 0), Partition("orders", 1)


class Queries(Struct):
    """What the next looks show."""

    positions: dict[Partition, int] = field(default_factory=dict)
    batch: int = 0
    error: Exception | None = None
    problems: tuple[str, ...] = ()
    brokers: str = ""
    has_ended: bool = False
    failure: Exception | None = None
    seconds: float = 0.0
    """How long a look takes. Then, a look is the only one that is told of the positions."""

    async def look(self) -> Sight:
        await trio.lowlevel.checkpoint()
        if self.error is not None:
            raise self.error
        self.batch += 1
        progress = QueryProgress(ID, RUN, "billing", self.batch, dict(self.positions))
        if self.seconds:
            self.positions, batch = {}, self.batch
            await trio.sleep(self.seconds)
            return Sight((progress,) if batch == 1 else ())
        ended = (QueryEnded(ID, RUN),) if self.has_ended else ()
        return Sight((progress, *ended), self.problems, self.failure, self.brokers)


class Kept(Struct):
    spu: GroupedSpu
    queries: Queries
    keeper: LagKeeper
    groups: GroupClient

    async def committed(self, group: str = "g") -> dict[Partition, int | None]:
        found = (await self.groups.committed([group]))[group]
        assert not isinstance(found, RefusedError)
        return {each.partition: each.committed for each in found}


@asynccontextmanager
async def _kept(
    group: str | None = "g", broker: Address = ADDRESS, interval_seconds: float = 0.0, *, is_default: bool = False
) -> AsyncIterator[Kept]:
    async with grouped_spu() as spu:
        await spu.running.create("orders", 2)
        await spu.produce("orders", 0, 10)
        await spu.produce("orders", 1, 3)
        queries = Queries({ONE: 4, TWO: 3})
        spus = SpuClient(spu.network, [broker], BOOTSTRAP)
        positions = GroupPositions(group)
        logger = structlog.get_logger()
        keeper = LagKeeper(
            queries.look, positions, spus, spu.clock, logger, interval_seconds, asks_brokers_of_queries=is_default
        )
        asking = SpuClient(spu.network, [ADDRESS], BOOTSTRAP)
        yield Kept(spu, queries, keeper, GroupClient(asking))
        asking.close()
        spus.close()


async def test_positions_are_committed_and_lag_is_measured(autojump_clock: object) -> None:
    async with _kept() as kept:
        kept.spu.clock.time_ms += 2504  # a record is 1 ms younger than the one before it
        await kept.keeper.check_once()
        assert await kept.committed() == {ONE: 4, TWO: 3}
        assert kept.keeper.counters.commits == 2
        found = [(each.partition, each.position, each.end, each.lag_records) for each in kept.keeper.rows]
        assert found == [(ONE, 4, 10, 6), (TWO, 3, 3, 0)]
        assert [each.lag_seconds for each in kept.keeper.rows] == [2.5, 0.0]
        assert kept.keeper.figures().age_seconds == 0.0
        kept.spu.clock.time_ms += 1000
        assert kept.keeper.figures().age_seconds == 1.0


async def test_only_what_has_moved_is_committed_again(autojump_clock: object) -> None:
    async with _kept() as kept:
        await kept.keeper.check_once()
        await kept.keeper.check_once()
        assert kept.keeper.counters.commits == 2
        kept.queries.positions[ONE] = 10
        await kept.keeper.check_once()
        assert await kept.committed() == {ONE: 10, TWO: 3}
        assert kept.keeper.counters.commits == 3
        assert [each.lag_records for each in kept.keeper.rows] == [0, 0]


async def test_without_a_group_lag_is_measured_all_the_same(autojump_clock: object) -> None:
    async with _kept(group=None) as kept:
        await kept.keeper.check_once()
        assert [each.lag_records for each in kept.keeper.rows] == [6, 0]
        assert kept.keeper.counters.commits == 0


async def test_a_group_with_members_refuses_and_lag_is_measured_all_the_same(autojump_clock: object) -> None:
    async with _kept() as kept:
        await kept.spu.member("g", "consumer", "orders", [0])
        await kept.keeper.run_once()
        assert kept.keeper.counters.failed_commits > 0
        assert [each.lag_records for each in kept.keeper.rows] == [6, 0]
        with pytest.raises(RefusedError, match="g"):
            kept.queries.positions[ONE] = 5
            await kept.keeper.check_once()


async def test_a_topic_that_does_not_exist_hides_no_other(autojump_clock: object) -> None:
    async with _kept() as kept:
        kept.queries.positions[Partition("missing", 0)] = 1
        await kept.keeper.run_once()
        assert [each.partition for each in kept.keeper.rows] == [ONE, TWO]
        assert kept.keeper.counters.failed_measurements == 1
        assert kept.keeper.figures().age_seconds is None


async def test_the_lag_does_not_age_when_the_topic_of_a_query_is_deleted_that_has_ended(autojump_clock: object) -> None:
    async with _kept() as kept:
        kept.queries.positions[Partition("missing", 0)] = 1
        kept.queries.has_ended = True
        await kept.keeper.run_once()
        assert [each.partition for each in kept.keeper.rows] == [ONE, TWO]
        assert kept.keeper.counters.failed_measurements == 0
        assert kept.keeper.figures().age_seconds == 0.0


async def test_a_refusal_is_logged_once_although_not_every_round_has_something_to_commit(
    autojump_clock: object,
) -> None:
    async with _kept() as kept:
        await kept.spu.member("g", "consumer", "orders", [0])
        with capture_logs() as logged:
            for _ in range(3):
                kept.queries.positions[ONE] += 1
                await kept.keeper.run_once()
                await kept.keeper.run_once()
        found = [each["what"] for each in logged if each["event"] == "lag_attempt_failed"]
        assert found == ["commit"]
        assert kept.keeper.counters.failed_commits == 3


async def test_brokers_that_cannot_be_read_hide_no_progress(autojump_clock: object) -> None:
    async with _kept(is_default=True) as kept:
        kept.queries.brokers = "nowhere"
        await kept.keeper.run_once()
        assert kept.keeper.counters.failed_looks == 1
        assert await kept.committed() == {ONE: 4, TWO: 3}


async def test_failures_are_counted_and_the_keeper_goes_on(autojump_clock: object) -> None:
    async with _kept(broker=Address("nowhere", 1)) as kept:
        await kept.keeper.run_once()
        kept.queries.error = RuntimeError("the session was stopped")
        await kept.keeper.run_once()
        counters = kept.keeper.counters
        assert (counters.failed_looks, counters.failed_commits, counters.failed_measurements) == (1, 2, 2)
        kept.queries.error = None
        with pytest.raises(UnreachableError):
            await kept.keeper.check_once()


async def test_the_brokers_of_the_first_query_replace_the_default_once(autojump_clock: object) -> None:
    async with _kept(broker=Address("nowhere", 1), is_default=True) as kept:
        kept.queries.brokers = str(ADDRESS)
        await kept.keeper.check_once()
        kept.queries.brokers = "elsewhere:1"
        await kept.keeper.check_once()
        assert await kept.committed() == {ONE: 4, TWO: 3}
        assert [each.lag_records for each in kept.keeper.rows] == [6, 0]


async def test_brokers_that_were_given_stay(autojump_clock: object) -> None:
    async with _kept() as kept:
        kept.queries.brokers = "elsewhere:1"
        await kept.keeper.check_once()
        assert [each.lag_records for each in kept.keeper.rows] == [6, 0]


async def test_a_problem_is_logged_once(autojump_clock: object) -> None:
    async with _kept() as kept:
        kept.queries.problems = ("one", "two")
        with capture_logs() as logged:
            await kept.keeper.run_once()
            await kept.keeper.run_once()
        found = [each["reason"] for each in logged if each["event"] == "progress_unreadable"]
        assert found == ["one", "two"]


async def test_a_look_can_be_brought_forward(autojump_clock: object) -> None:
    async with _kept(interval_seconds=3600.0) as kept, trio.open_nursery() as nursery:
        stop = trio.Event()
        nursery.start_soon(kept.keeper.run, stop)
        await trio.testing.wait_all_tasks_blocked()
        assert kept.keeper.counters.looks == 1
        kept.keeper.look_soon()
        await trio.testing.wait_all_tasks_blocked()
        assert kept.keeper.counters.looks == 2
        stop.set()


async def test_what_a_look_has_heard_is_not_lost_when_the_keeper_is_stopped(autojump_clock: object) -> None:
    async with _kept(interval_seconds=3600.0) as kept:
        kept.queries.seconds = 5.0
        stop = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(kept.keeper.run, stop)
            await trio.sleep(1)
            stop.set()
        assert await kept.committed() == {ONE: 4, TWO: 3}


async def test_a_session_that_says_nothing_does_not_hold_up_the_end(autojump_clock: object) -> None:
    async with _kept(interval_seconds=3600.0) as kept:
        kept.queries.seconds = 3600.0
        stop = trio.Event()
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(kept.keeper.run, stop)
            await trio.sleep(1)
            stop.set()
        assert trio.current_time() - began <= 1 + LOOK_SECONDS + LAST_SECONDS_MAX


async def test_positions_are_committed_although_the_session_has_ended(autojump_clock: object) -> None:
    async with _kept() as kept:
        kept.queries.failure = RuntimeError("no active session")
        await kept.keeper.run_once()
        assert await kept.committed() == {ONE: 4, TWO: 3}
        assert (kept.keeper.counters.looks, kept.keeper.counters.failed_looks) == (0, 1)


async def test_a_keeper_that_is_stopped_looks_and_commits_for_the_last_time(autojump_clock: object) -> None:
    async with _kept() as kept:
        stop = trio.Event()
        stop.set()
        await kept.keeper.check_once()
        kept.queries.positions[ONE] = 8
        await kept.keeper.run(stop)
        assert await kept.committed() == {ONE: 8, TWO: 3}
