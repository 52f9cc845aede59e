"""Fetches single batches from a complete SPU, and chooses the SPUs to ask."""

import pytest
import trio
from msgspec.structs import replace
from simulation.network import MemoryNetwork
from spus import ADDRESS, filled, running_spu, spu_requests_from

from tailrace.broker.copies.batch_copies import RESPONSE_SECONDS_MAX, RemoteBatchCopies
from tailrace.broker.copies.store_answers import membership_of
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.specs import Endpoint, SpuSpec
from tailrace.protocol.batches.record_batch import read_header
from tailrace.protocol.ids import SpuId
from tailrace.runtime.network import Address

HERE, THERE, OTHER, AWAY = map(SpuId, (9, 1, 2, 3))


def _cluster(address: Address = ADDRESS) -> Cluster:
    cluster = Cluster()
    endpoints = (Endpoint("PUBLIC", address.host, address.port),)
    for spu in (HERE, THERE, OTHER):
        cluster.put_spu(SpuSpec(spu, endpoints=endpoints))
    cluster.put_spu(SpuSpec(AWAY, endpoints=endpoints, online=False))
    return cluster


async def test_a_batch_comes_from_another_spu(autojump_clock: object) -> None:
    async with running_spu() as running:
        replica = await filled(running)
        copies = RemoteBatchCopies(spu_requests_from(HERE, _cluster(), running.world.network))
        for offset, base in ((0, 0), (1, 0), (2, 2), (3, 3)):
            copy = await copies.fetch(THERE, replica, offset, is_committed=True)
            header = read_header(copy)
            assert (header.base_offset, header.size) == (base, len(copy))


async def test_an_uncommitted_batch_is_fetched_only_on_request(autojump_clock: object) -> None:
    async with running_spu() as running:
        replica = await filled(running)
        replica.high_watermark = 2
        copies = RemoteBatchCopies(spu_requests_from(HERE, _cluster(), running.world.network))
        assert await copies.fetch(THERE, replica, 2, is_committed=True) == b""
        copy = await copies.fetch(THERE, replica, 2, is_committed=False)
        assert read_header(copy).base_offset == 2


@pytest.mark.parametrize(
    ("spu", "offset"), [(THERE, 4), (THERE, 5), (AWAY, 0), (SpuId(77), 0)], ids=["the end", "beyond", "away", "unknown"]
)
async def test_the_result_is_empty_if_there_is_no_batch_or_no_spu(
    autojump_clock: object, spu: SpuId, offset: int
) -> None:
    async with running_spu() as running:
        replica = await filled(running)
        copies = RemoteBatchCopies(spu_requests_from(HERE, _cluster(), running.world.network))
        assert await copies.fetch(spu, replica, offset, is_committed=True) == b""


async def test_a_silent_spu_or_one_that_breaks_the_protocol_has_nothing(autojump_clock: object) -> None:
    network = MemoryNetwork()
    listener = await network.listen(ADDRESS)
    async with running_spu() as running:
        replica = await filled(running)
        copies = RemoteBatchCopies(spu_requests_from(HERE, _cluster(), network))
        begun = trio.current_time()
        assert await copies.fetch(THERE, replica, 0, is_committed=True) == b""
        assert trio.current_time() - begun == RESPONSE_SECONDS_MAX
        await listener.accept()
        for said in (b"", b"\x7f\xff\xff\xff", b"\0\0\0\2no"):
            async with trio.open_nursery() as nursery:

                @nursery.start_soon
                async def answer(said: bytes = said) -> None:
                    connection = await listener.accept()
                    connection.send([said])
                    connection.end_sending()

                assert await copies.fetch(THERE, replica, 0, is_committed=True) == b""
    listener.close()
    assert await copies.fetch(THERE, replica, 0, is_committed=True) == b""


async def test_a_store_reports_its_state_and_its_batch(autojump_clock: object) -> None:
    async with running_spu() as running:
        replica = await filled(running)
        replica.high_watermark = 2
        copies = RemoteBatchCopies(spu_requests_from(HERE, _cluster(), running.world.network))
        for offset, base in ((0, 0), (3, 3)):
            found = await copies.inspect(THERE, replica, offset)
            assert found is not None
            answer, copy = found
            assert read_header(copy).base_offset == base
            assert (answer.spu, answer.in_doubt, answer.high_watermark, answer.log_end) == (THERE, False, 2, 4)
            assert answer.membership == membership_of(replica)
        for offset in (4, 5):
            found = await copies.inspect(THERE, replica, offset)
            assert found is not None, "the store responds that it has nothing at the offset"
            assert found[1] == b""


async def test_a_silent_store_is_not_taken_for_an_empty_one(autojump_clock: object) -> None:
    async with running_spu() as running:
        replica = await filled(running)
        copies = RemoteBatchCopies(spu_requests_from(HERE, _cluster(), running.world.network))
        assert await copies.inspect(AWAY, replica, 0) is None
        unreachable = RemoteBatchCopies(
            spu_requests_from(HERE, _cluster(Address("elsewhere", 1)), running.world.network)
        )
        assert await unreachable.inspect(THERE, replica, 0) is None
        replica.go_offline("its disk has failed")
        assert await copies.inspect(THERE, replica, 0) is None


async def test_the_leader_is_asked_first_and_replicas_that_are_not_live_last(autojump_clock: object) -> None:
    async with running_spu() as running:
        replica = await filled(running)
        copies = RemoteBatchCopies(spu_requests_from(HERE, _cluster(), running.world.network))
        live = (THERE, AWAY, HERE, OTHER)
        for leader, holders in ((OTHER, [OTHER, THERE]), (THERE, [THERE, OTHER]), (SpuId(-1), [THERE, OTHER])):
            replica.spec = replace(replica.spec, leader=leader, live_replicas=live)
            assert copies.holders(replica) == holders
        replica.spec = replace(
            replica.spec, replicas=(HERE, AWAY, THERE, OTHER), leader=HERE, live_replicas=(HERE, OTHER)
        )
        assert copies.holders(replica) == [OTHER, THERE]
