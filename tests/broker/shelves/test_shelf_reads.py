"""Which stores a leader asks for records before its log, and what it does with their responses.

Tests with real stores, and reads on into the log, are in `tests/test_shelves.py`.
"""

from collections.abc import Callable
from typing import Any

import pytest
import structlog
import trio
from held_replicas import HERE, World, topic_of
from msgspec.structs import replace
from simulation.network import MemoryConnection, connected_pair
from structlog.testing import capture_logs

from tailrace.broker.copies import spu_requests
from tailrace.broker.copies.spu_requests import SpuRequests
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.shelves.shelf_reads import AT_ONCE_MAX, BY_LARGEST_TIME, RESPONSE_SECONDS_MAX, ShelfReads
from tailrace.broker.spu_counters import BrokerMetrics
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.specs import Endpoint, Shelf, SpuSpec
from tailrace.protocol.apis import Api
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import SpuId
from tailrace.protocol.internal.read_shelf import AbortedOnShelf, ReadShelfRequest, ReadShelfResponse
from tailrace.runtime.network import Address

FIRST, SECOND, AWAY = map(SpuId, (4, 5, 6))
LOG_START = 30
COMMITTED = 40
SHELVES = (Shelf(0, 10, (FIRST, SECOND)), Shelf(10, 20, (FIRST,)), Shelf(20, 35, (AWAY, SECOND)))

Answers = Callable[[int, ReadShelfRequest], ReadShelfResponse]
"""Returns the response of the store with the id, or raises OSError."""


def host_of(spu: int) -> str:
    return f"spu-{spu}"


class Stores:
    def __init__(self, patch: pytest.MonkeyPatch, answers: Answers) -> None:
        self.answers = answers
        self.asked: list[tuple[int, ReadShelfRequest]] = []
        self.is_silent = False
        cluster = Cluster()
        for spu in (FIRST, SECOND, AWAY):
            endpoints = (Endpoint("PUBLIC", host_of(spu), 9005),)
            cluster.put_spu(SpuSpec(spu, endpoints=endpoints, online=spu != AWAY))
        requests = SpuRequests(HERE, cluster, self._dial, self._read_here)
        self.reader = ShelfReads(requests, BrokerMetrics(), structlog.get_logger())
        patch.setattr(spu_requests, "send_request", self._ask)

    async def _dial(self, spu: SpuId) -> MemoryConnection:
        return connected_pair(server=Address(host_of(spu), 9006))[0]

    async def _ask(self, connection: MemoryConnection, *more: Any) -> ReadShelfResponse:
        spu, request = int(connection.remote.host.removeprefix(host_of(0)[:-1])), more[2]
        self.asked.append((spu, request))
        await trio.lowlevel.checkpoint()
        if self.is_silent:
            await trio.sleep_forever()
        return self.answers(spu, request)

    async def _read_here(self, api: Api, version: int, request: ReadShelfRequest) -> ReadShelfResponse:
        self.asked.append((HERE, request))
        await trio.lowlevel.checkpoint()
        return self.answers(HERE, request)

    def asked_spus(self) -> list[int]:
        return [spu for spu, _ in self.asked]


async def replica_with_shelves(shelved_from: int = 0) -> Replica:
    (replica,) = World().add(topic_of())
    await replica.log.truncate_fully(LOG_START)
    replica.spec = replace(replica.spec, shelves=SHELVES, shelved_from=shelved_from)
    return replica


def with_records(spu: int, request: ReadShelfRequest) -> ReadShelfResponse:
    return ReadShelfResponse(records=b"%d:%d" % (spu, request.offset))


async def test_a_store_of_the_shelf_that_has_the_offset_is_asked_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    stores, replica = Stores(monkeypatch, with_records), await replica_with_shelves()
    assert (await stores.reader.read(replica, 12, 500, COMMITTED)).records == b"4:12"
    ((_, request),) = stores.asked
    expected = ReadShelfRequest(replica.spec.topic_id, replica.partition, 10, 20, 12, 500)
    assert request == expected


async def test_an_offline_store_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    stores, replica = Stores(monkeypatch, with_records), await replica_with_shelves()
    replica.spec = replace(replica.spec, shelves=(Shelf(21, 35, (AWAY, SECOND)),))  # AWAY would be asked first
    with capture_logs() as logs:
        assert (await stores.reader.read(replica, 25, 500, COMMITTED)).records == b"5:25"
    assert (stores.asked_spus(), logs) == ([SECOND], [])


async def test_a_leader_that_is_also_a_store_reads_its_own_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    stores, replica = Stores(monkeypatch, with_records), await replica_with_shelves()
    replica.spec = replace(replica.spec, shelves=(Shelf(0, 35, (AWAY, HERE)),))
    assert (await stores.reader.read(replica, 25, 500, COMMITTED)).records == b"1:25"
    stores.answers = lambda _, request: ReadShelfResponse(ErrorCode.KAFKA_STORAGE_ERROR, "damaged")
    with pytest.raises(KafkaError, match="on a shelf of SPUs 6, 1"):
        await stores.reader.read(replica, 25, 500, COMMITTED)


async def test_stores_are_not_asked_for_offsets_in_the_log_or_deleted_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    stores, replica = Stores(monkeypatch, with_records), await replica_with_shelves(shelved_from=5)
    assert (await stores.reader.read(replica, LOG_START, 500, COMMITTED)).records == b""
    assert (await stores.reader.read(replica, 4, 500, COMMITTED)).records == b""
    assert stores.asked == []


@pytest.mark.parametrize(
    "failure", [OSError("no way"), ReadShelfResponse(ErrorCode.KAFKA_STORAGE_ERROR, "damaged")], ids=["lost", "refused"]
)
async def test_the_next_store_is_asked_if_one_fails(
    monkeypatch: pytest.MonkeyPatch, failure: OSError | ReadShelfResponse
) -> None:
    def answers(spu: int, request: ReadShelfRequest) -> ReadShelfResponse:
        if len(stores.asked) > 1:
            return with_records(spu, request)
        if isinstance(failure, OSError):
            raise failure
        return failure

    stores, replica = Stores(monkeypatch, answers), await replica_with_shelves()
    assert (await stores.reader.read(replica, 3, 500, COMMITTED)).records in (b"4:3", b"5:3")
    assert sorted(stores.asked_spus()) == [FIRST, SECOND]


async def test_the_client_gets_an_error_if_no_store_responds(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    stores, replica = Stores(monkeypatch, with_records), await replica_with_shelves()
    stores.is_silent = True
    begun = trio.current_time()
    with pytest.raises(KafkaError, match="on a shelf of SPUs 4, 5") as refused:
        await stores.reader.read(replica, 3, 500, COMMITTED)
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert trio.current_time() - begun == 2 * RESPONSE_SECONDS_MAX


async def test_a_gap_at_the_end_of_a_shelf_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    def answers(spu: int, request: ReadShelfRequest) -> ReadShelfResponse:
        return ReadShelfResponse() if request.base == 10 else with_records(spu, request)

    stores, replica = Stores(monkeypatch, answers), await replica_with_shelves()
    assert (await stores.reader.read(replica, 15, 500, COMMITTED)).records == b"5:20"


async def test_nothing_is_read_beyond_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def answers(_: int, request: ReadShelfRequest) -> ReadShelfResponse:
        return ReadShelfResponse()

    stores, replica = Stores(monkeypatch, answers), await replica_with_shelves()
    assert (await stores.reader.read(replica, 12, 500, 15)).records == b""
    assert [(each.offset, each.end) for _, each in stores.asked] == [(12, 15)]


async def test_a_timestamp_is_searched_shelf_by_shelf(monkeypatch: pytest.MonkeyPatch) -> None:
    def answers(_: int, request: ReadShelfRequest) -> ReadShelfResponse:
        return ReadShelfResponse(0, "", 777, 12, 3) if request.base == 10 else ReadShelfResponse()

    stores, replica = Stores(monkeypatch, answers), await replica_with_shelves(shelved_from=5)
    assert await stores.reader.find_timestamp(replica, 700) == (777, 12, 3)
    assert [(each.base, each.offset, each.timestamp) for _, each in stores.asked] == [(0, 5, 700), (10, 10, 700)]


async def test_the_first_of_the_newest_records_may_be_on_any_shelf(monkeypatch: pytest.MonkeyPatch) -> None:
    def answers(_: int, request: ReadShelfRequest) -> ReadShelfResponse:
        return ReadShelfResponse(0, "", {0: 50, 10: 90, 20: 90}[request.base], request.base, 1)

    stores, replica = Stores(monkeypatch, answers), await replica_with_shelves()
    assert await stores.reader.max_timestamp(replica) == (90, 10, 1)
    assert {each.timestamp for _, each in stores.asked} == {BY_LARGEST_TIME}


async def test_only_few_requests_are_in_flight(monkeypatch: pytest.MonkeyPatch, autojump_clock: object) -> None:
    stores, replica = Stores(monkeypatch, with_records), await replica_with_shelves()
    stores.is_silent = True
    async with trio.open_nursery() as nursery:
        for _ in range(AT_ONCE_MAX + 3):
            nursery.start_soon(stores.reader.read, replica, 12, 500, COMMITTED)
        await trio.testing.wait_all_tasks_blocked()
        assert len(stores.asked) == AT_ONCE_MAX
        nursery.cancel_scope.cancel()


async def test_what_was_aborted_comes_with_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    def answers(spu: int, request: ReadShelfRequest) -> ReadShelfResponse:
        return ReadShelfResponse(records=b"records", aborted=[AbortedOnShelf(7, 11), AbortedOnShelf(8, 12)])

    stores, replica = Stores(monkeypatch, answers), await replica_with_shelves()
    assert await stores.reader.read(replica, 12, 500, COMMITTED) == (b"records", [(7, 11), (8, 12)])
