"""Tests quorum reads on whole clusters, with and without a leader."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from clusters import ClusterOfSpus, address_of, cluster_of
from structlog.testing import capture_logs

from tailrace.cli.records.consuming import quorum_client
from tailrace.cli.records.consuming.quorum_client import QuorumClient, QuorumFetched, TooFewStoresError
from tailrace.client.log_facts import Partition, fetched_batches
from tailrace.client.server_connection import RefusedError
from tailrace.client.spu_client import BOOTSTRAP, SpuClient
from tailrace.protocol.error_codes import ErrorCode

ORDERS = Partition("orders", 0)


@asynccontextmanager
async def _filled(policy: str = "majority", count: int = 3) -> AsyncIterator[tuple[ClusterOfSpus, int]]:
    """Creates a topic and returns its leader."""
    configs = {} if policy == "live" else {"replication_policy": policy}
    with capture_logs():
        async with cluster_of(1, 2, 3) as cluster:
            assert await cluster.create(1, "orders", 1, 3, **configs) == ErrorCode.NONE
            ((leader, _),) = (await cluster.leaders(1, "orders")).values()
            for number in range(count):
                assert await cluster.produce(leader, "orders", 0, b"%d" % number) == ErrorCode.NONE
            yield cluster, leader


def _client(cluster: ClusterOfSpus, spu: int) -> QuorumClient:
    return QuorumClient(SpuClient(cluster.world.network, [address_of(spu)], BOOTSTRAP))


def _values(fetched: QuorumFetched) -> list[bytes | None]:
    return [record.value for _, records in fetched_batches(fetched.records) for record in records]


@pytest.mark.parametrize("policy", ["live", "majority", "nrw:3,2,2"])
async def test_what_is_acknowledged_is_read_without_a_leader_and_without_the_sc(
    autojump_clock: object, policy: str
) -> None:
    async with _filled(policy) as (cluster, leader):
        await trio.sleep(0.1)
        await cluster.kill_sc()
        await cluster.kill_spu(leader)
        fetched = await _client(cluster, leader % 3 + 1).read(ORDERS, 0)
        assert _values(fetched) == [b"0", b"1", b"2"]
        assert (fetched.start, fetched.end, fetched.may_end, fetched.records_end) == (0, 3, 3, 3)
        (reason,) = fetched.silent
        assert f"SPU {leader}: " in reason and "does not answer" in reason
        assert _values(await _client(cluster, leader % 3 + 1).read(ORDERS, 2)) == [b"2"]


async def test_too_few_stores_are_named_with_their_reasons(autojump_clock: object) -> None:
    async with _filled() as (cluster, leader):
        last = leader % 3 + 1
        await cluster.kill_sc()
        for spu in (1, 2, 3):
            if spu != last:
                await cluster.kill_spu(spu)
        with pytest.raises(TooFewStoresError, match="orders/0: too few replicas respond") as refused:
            await _client(cluster, last).read(ORDERS, 0)
        assert all(f"SPU {spu}: " in str(refused.value) for spu in (1, 2, 3) if spu != last)


async def test_a_frozen_store_is_not_waited_for(autojump_clock: object, monkeypatch: pytest.MonkeyPatch) -> None:
    async with _filled() as (cluster, leader):
        await trio.sleep(0.1)
        client = _client(cluster, leader)
        await client.read(ORDERS, 0)
        frozen, ask = leader % 3 + 1, SpuClient.ask

        async def asking(self: SpuClient, spu_id: int, *rest: object) -> object:
            if spu_id == frozen:
                await trio.sleep_forever()
            return await ask(self, spu_id, *rest)  # type: ignore[arg-type]

        monkeypatch.setattr(SpuClient, "ask", asking)
        fetched = await client.read(ORDERS, 0)
        assert len(_values(fetched)) == 3
        assert fetched.silent == (f"SPU {frozen} does not answer within 3 seconds",)


async def test_a_batch_that_is_damaged_on_one_store_comes_from_another(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _filled(count=1) as (cluster, leader):
        await trio.sleep(0.1)
        asked, crc_of = [], quorum_client.crc_of

        def damaged_first(batch: bytes, position: int, size: int) -> int:
            asked.append(batch)
            return 0 if len(asked) == 1 else crc_of(batch, position, size)

        monkeypatch.setattr(quorum_client, "crc_of", damaged_first)
        assert _values(await _client(cluster, leader).read(ORDERS, 0)) == [b"0"]
        assert len(asked) == 2


async def test_a_partition_that_is_not_there_is_refused(autojump_clock: object) -> None:
    async with _filled() as (cluster, leader):
        with pytest.raises(RefusedError, match="there is no partition orders/7"):
            await _client(cluster, leader).read(Partition("orders", 7), 0)
        with pytest.raises(RefusedError, match="nothing/0: there is no such partition"):
            await _client(cluster, leader).read(Partition("nothing", 0), 0)
