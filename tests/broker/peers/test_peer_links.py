from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random
from uuid import UUID

import pytest
import structlog
import trio
from batch_samples import make_batch
from peers import KEY, Spu, append, append_reply, cluster_of, identity, private_address, put_spu
from simulation.faulty_network import Internet
from simulation.files import SimulatedFiles
from simulation.network import MemoryNetwork

from tailrace.broker.peers import peer_dialler
from tailrace.broker.peers.peer_gauges import PeerTraffic
from tailrace.broker.peers.peer_handshake import introduce
from tailrace.broker.peers.peer_links import PeerLinks
from tailrace.broker.peers.peer_messages import PeerMessage
from tailrace.broker.replication.entries import Entry
from tailrace.broker.replication.messages import Append, AppendReply, Fenced, Hello
from tailrace.cluster.cluster import Cluster
from tailrace.protocol.batches.record_batch import read_header
from tailrace.protocol.ids import Epoch, SpuId
from tailrace.runtime.chance import RandomChance
from tailrace.runtime.file_range import FileRange
from tailrace.runtime.files import RealFiles
from tailrace.runtime.network import Address, TcpNetwork
from tailrace.storage.directory.checkpoints import ReplicaKey

LEADER, FOLLOWER = SpuId(1), SpuId(2)
OTHER = (UUID(int=8), 3)


@asynccontextmanager
async def _spus(*ids: int, network: MemoryNetwork | None = None) -> AsyncIterator[list[Spu]]:
    network = network or MemoryNetwork()
    cluster = cluster_of(*ids)
    spus = [Spu(spu, network, cluster) for spu in ids]
    async with trio.open_nursery() as nursery:
        for spu in spus:
            nursery.start_soon(spu.run, await network.listen(private_address(spu.id)))
        yield spus
        nursery.cancel_scope.cancel()


async def _linked(leader: Spu, follower: Spu) -> None:
    follower.links.follow(leader.id)
    await follower.until(lambda: follower.links.is_linked(leader.id, from_leader=True))
    await leader.until(lambda: leader.links.is_linked(follower.id, from_leader=False))


async def test_a_follower_and_its_leader_tell_each_other(virtual_clock: object) -> None:
    async with _spus(1, 2) as (leader, follower):
        assert not leader.links.keeps_up(FOLLOWER)
        await _linked(leader, follower)
        assert leader.links.keeps_up(FOLLOWER)
        leader.links.send_to_follower(FOLLOWER, KEY, append(0))
        leader.links.flush()
        follower.links.send_to_leader(LEADER, OTHER, append_reply(2, 5))
        follower.links.flush()
        await follower.until_heard(1)
        await leader.until_heard(1)
        assert follower.heard == [(LEADER, KEY, append(0))]
        assert leader.heard == [(FOLLOWER, OTHER, append_reply(2, 5))]
        assert leader.linked == [("linked", FOLLOWER, False)]
        assert follower.linked == [("linked", LEADER, True)]


async def test_two_spus_that_follow_each_other_have_two_links(virtual_clock: object) -> None:
    async with _spus(1, 2) as (one, two):
        await _linked(one, two)
        await _linked(two, one)
        one.links.send_to_follower(two.id, KEY, append(1))
        one.links.send_to_leader(two.id, OTHER, append_reply(1, 2))
        one.links.flush()
        await two.until_heard(2)
        assert sorted(two.heard, key=str) == sorted(
            [(one.id, KEY, append(1)), (one.id, OTHER, append_reply(1, 2))], key=str
        )
        (gauges,) = one.links.gauges(trio.current_time())
        assert (gauges.seconds_as_leader, gauges.seconds_as_follower) == (0, 0)


async def test_answers_to_a_turn_leave_without_being_flushed(virtual_clock: object) -> None:
    async with _spus(1, 2) as (leader, follower):
        await _linked(leader, follower)

        def answer(spu: SpuId, key: ReplicaKey, message: PeerMessage) -> None:
            follower.links.send_to_leader(spu, key, append_reply(2, 9))

        follower.answer = answer
        asked = trio.current_time()
        leader.links.send_to_follower(FOLLOWER, KEY, append(0))
        leader.links.flush()
        await leader.until_heard(1)
        assert leader.messages == [append_reply(2, 9)]
        assert trio.current_time() == asked


async def test_records_for_several_followers_are_read_once_per_message(virtual_clock: object) -> None:
    async with _spus(1, 2, 3) as (leader, *followers):
        for follower in followers:
            await _linked(leader, follower)
        batch = bytes(make_batch(0, size=300))
        message, reads = _append_of(batch), 0

        def read() -> list[FileRange]:
            nonlocal reads
            reads += 1
            return [FileRange(file, 0, len(batch))]

        files = SimulatedFiles()
        file = files.open("/log", create=True)
        file.append(batch)
        for times in (1, 2):
            for follower in followers:
                leader.links.send_to_follower(follower.id, KEY, message, read)
            leader.links.flush()
            for follower in followers:
                await follower.until_heard(times)
                assert (follower.messages, follower.batches) == ([message] * times, [batch] * times)
            assert reads == times
        sent = {gauges.traffic.sent_bytes for gauges in leader.links.gauges(trio.current_time())}
        assert sent == {2 * len(batch)}


async def test_unreadable_records_are_reported_and_the_rest_is_sent(virtual_clock: object) -> None:
    def read() -> list[FileRange]:
        raise OSError("the disk is gone")

    async with _spus(1, 2) as (leader, follower):
        await _linked(leader, follower)
        leader.links.send_to_follower(FOLLOWER, KEY, append(0), read)
        leader.links.send_to_follower(FOLLOWER, OTHER, append(1))
        leader.links.flush()
        await follower.until_heard(1)
        assert follower.messages == [append(1)]
        assert leader.unreadable == [KEY]


async def test_hellos_wait_for_their_leader(virtual_clock: object) -> None:
    async with _spus(1, 2, 3) as (leader, *followers):
        for follower in followers:
            await _linked(leader, follower)
            follower.links.send_to_leader(LEADER, KEY, Hello(Epoch(4), follower.id, ""))
            follower.links.send_to_leader(LEADER, OTHER, Hello(Epoch(5), follower.id, ""))
            follower.links.flush()
        await leader.until_heard(4)
        hellos = sorted(leader.links.take_hellos(KEY), key=lambda hello: hello.spu)
        assert hellos == [Hello(Epoch(4), SpuId(2), "store-2"), Hello(Epoch(4), SpuId(3), "store-3")]
        assert leader.links.take_hellos(KEY) == []
        followers[0].links.unfollow(LEADER)
        await leader.until(lambda: not leader.links.is_linked(SpuId(2), from_leader=False))
        assert [hello.spu for hello in leader.links.take_hellos(OTHER)] == [3]


async def test_a_message_without_a_link_is_dropped(virtual_clock: object) -> None:
    async with _spus(1, 2) as (leader, follower):
        leader.links.send_to_follower(FOLLOWER, KEY, append(0))
        leader.links.flush()
        await _linked(leader, follower)
        leader.links.send_to_follower(FOLLOWER, KEY, append(1))
        leader.links.flush()
        await follower.until_heard(1)
        assert follower.messages == [append(1)]


async def test_both_sides_notice_the_end_and_link_again(virtual_clock: object) -> None:
    async with _spus(1, 2) as (leader, follower):
        await _linked(leader, follower)
        follower.links.unfollow(LEADER)
        await follower.until(lambda: len(follower.linked) == 2)
        follower.links.follow(LEADER)
        await leader.until(lambda: len(leader.linked) == 3)
        await follower.until(lambda: len(follower.linked) == 3)
        assert leader.linked == [("linked", 2, False), ("unlinked", 2, False), ("linked", 2, False)]
        assert follower.linked == [("linked", 1, True), ("unlinked", 1, True), ("linked", 1, True)]
        assert (follower.links.dialled_links(LEADER), leader.links.dialled_links(FOLLOWER)) == (2, 0)


async def test_a_part_that_begins_where_another_ends_goes_on_with_its_link(virtual_clock: object) -> None:
    async with _spus(1, 2) as (leader, follower):
        await _linked(leader, follower)
        follower.links.forget(KEY)
        follower.links.unfollow(LEADER)
        follower.links.follow(LEADER)
        assert follower.links.is_linked(LEADER, from_leader=True)
        follower.links.send_to_leader(LEADER, KEY, Hello(Epoch(5), FOLLOWER, ""))
        follower.links.flush()
        await trio.sleep(10)
        assert [hello.epoch for hello in leader.links.take_hellos(KEY)] == [5]
        assert leader.linked == [("linked", 2, False)]


async def test_a_second_connection_of_an_spu_takes_the_place_of_the_first(virtual_clock: object) -> None:
    network = MemoryNetwork()
    async with _spus(1, 2, network=network) as (leader, follower):
        await _linked(leader, follower)
        again = await network.connect(private_address(1))
        await introduce(again, identity(2), leader.cluster, LEADER)
        await leader.until(lambda: len(leader.linked) == 3)
        assert leader.linked == [("linked", 2, False), ("unlinked", 2, False), ("linked", 2, False)]


async def test_an_spu_whose_host_died_silently_is_noticed(virtual_clock: object) -> None:
    network = MemoryNetwork()
    async with _spus(1, 3, network=network) as (leader, _):
        put_spu(leader.cluster, 2, None)
        silent = await network.connect(private_address(1))
        await introduce(silent, identity(2), leader.cluster, LEADER)
        started = trio.current_time()
        await leader.until(lambda: ("unlinked", SpuId(2), False) in leader.linked)
        assert 2 <= trio.current_time() - started <= 2.5


async def test_forgotten_messages_are_not_sent(virtual_clock: object) -> None:
    async with _spus(1, 2) as (leader, follower):
        await _linked(leader, follower)
        leader.links.send_to_follower(FOLLOWER, KEY, append(0))
        leader.links.forget(KEY)
        leader.links.send_to_follower(FOLLOWER, OTHER, append(1))
        leader.links.flush()
        await follower.until_heard(1)
        assert follower.messages == [append(1)]


async def test_traffic_and_ages_are_reported(virtual_clock: object) -> None:
    async with _spus(1, 2) as (leader, follower):
        await _linked(leader, follower)
        batch = make_batch(0, size=300)
        leader.links.send_to_follower(FOLLOWER, KEY, _append_of(batch), bytes(batch))
        leader.links.flush()
        await follower.until_heard(1)
        await trio.sleep(10)
        (at_leader,) = leader.links.gauges(trio.current_time())
        assert (at_leader.spu, at_leader.traffic) == (FOLLOWER, PeerTraffic(sent_messages=1, sent_bytes=300))
        assert (at_leader.seconds_as_leader, at_leader.seconds_as_follower) == (None, pytest.approx(10))
        follower.links.unfollow(LEADER)
        await follower.until(lambda: not follower.links.is_linked(LEADER, from_leader=True))
        (at_follower,) = follower.links.gauges(trio.current_time())
        assert at_follower.traffic == PeerTraffic(received_messages=1, received_bytes=300, dialled_links=1)
        assert (at_follower.seconds_as_leader, at_follower.seconds_as_follower) == (None, None)


def test_telling_before_anything_runs_is_harmless() -> None:
    links = PeerLinks(identity(1), Cluster(), MemoryNetwork(), RandomChance(1), structlog.get_logger())
    links.send_to_follower(FOLLOWER, KEY, Fenced(Epoch(3)))
    links.forget(KEY)
    links.flush()
    assert (links.take_hellos(KEY), links.gauges(0)) == ([], [])


# a network that fails


@pytest.mark.parametrize("seed", range(6))
async def test_a_network_that_fails_at_random_is_survived(virtual_clock: object, seed: int) -> None:
    """Messages on one link arrive in order and once; both sides learn that it has ended; there is always a next one."""
    random = Random(seed)
    internet = Internet(random)
    cluster = cluster_of(LEADER, FOLLOWER)
    leader, follower = (Spu(spu, internet.process_on(private_address(spu).host), cluster) for spu in (1, 2))
    hosts = [private_address(spu).host for spu in (1, 2)]
    told = 0
    async with trio.open_nursery() as nursery:
        for spu, host in zip((leader, follower), hosts, strict=True):
            nursery.start_soon(spu.run, await internet.process_on(host).listen(private_address(spu.id)))
        follower.links.follow(LEADER)
        for _ in range(10):
            await leader.until(lambda: leader.links.is_linked(FOLLOWER, from_leader=False))
            await follower.until(lambda: follower.links.is_linked(LEADER, from_leader=True))
            blocked = random.sample(hosts, 2)
            both_ways = random.random() < 0.5
            await trio.sleep(random.random())
            internet.block(*blocked)
            if both_ways:
                internet.block(*reversed(blocked))
            for _ in range(random.randrange(10)):
                batch = make_batch(told, size=random.choice((100, 30_000)))
                leader.links.send_to_follower(FOLLOWER, KEY, _append_of(batch), bytes(batch))
                follower.links.send_to_leader(LEADER, KEY, append_reply(2, told))
                told += 1
            leader.links.flush()
            follower.links.flush()
            await trio.sleep(random.random() * 6)
            internet.unblock(*blocked)
            if both_ways:
                internet.unblock(*reversed(blocked))
            await trio.sleep(10)
        nursery.cancel_scope.cancel()
    bases = [message.base for message in follower.messages if isinstance(message, Append)]
    assert bases == sorted(set(bases))
    ends = [message.matched_end for message in leader.messages if isinstance(message, AppendReply)]
    assert ends == sorted(set(ends))
    for spu, peer, from_leader in ((leader, FOLLOWER, False), (follower, LEADER, True)):
        assert len(spu.linked) % 2 == 0
        pairs = zip(spu.linked[::2], spu.linked[1::2], strict=True)
        assert set(pairs) == {(("linked", peer, from_leader), ("unlinked", peer, from_leader))}
    assert len(leader.linked) > 2, "some blocks last longer than a silence may"


# real sockets


def _append_of(batch: bytes | bytearray) -> Append:
    header = read_header(batch)
    entry = Entry(header.base_offset, header.next_offset, Epoch(0), header.crc, size=len(batch))
    return append(header.base_offset, (entry,))


@asynccontextmanager
async def _real_spus() -> AsyncIterator[list[Spu]]:
    network, cluster = TcpNetwork(), Cluster()
    cluster.identify("real", LEADER)
    spus = [Spu(spu, network, cluster) for spu in (LEADER, FOLLOWER)]
    async with trio.open_nursery() as nursery, AsyncExitStack() as listening:
        for spu in spus:
            listener = await network.listen(Address("127.0.0.1", 0))
            listening.callback(listener.close)
            put_spu(cluster, spu.id, listener.address)
            nursery.start_soon(spu.run, listener)
        await _linked(*spus)
        yield spus
        nursery.cancel_scope.cancel()


async def test_batches_of_any_size_go_through_real_sockets(tmp_path: object) -> None:
    file = RealFiles().open(f"{tmp_path}/log", create=True)
    batches = [bytes(make_batch(base, size=size)) for base, size in enumerate((100, 5000, 200_000, 3_000_000, 61))]
    async with _real_spus() as (leader, follower):
        position = 0
        for batch in batches:
            file.append(batch)
            ranges = [FileRange(file, position, len(batch))]
            position += len(batch)
            leader.links.send_to_follower(FOLLOWER, KEY, _append_of(batch), lambda ranges=ranges: ranges)  # type: ignore[misc]
        leader.links.flush()
        await follower.until_heard(len(batches))
        assert follower.messages == list(map(_append_of, batches))
        assert follower.batches == batches


async def test_many_replicas_share_a_real_connection() -> None:
    keys = [(UUID(int=number), 0) for number in range(200)]
    batch = bytes(make_batch(0, size=2000))
    async with _real_spus() as (leader, follower):

        def answer(spu: SpuId, key: ReplicaKey, message: PeerMessage) -> None:
            follower.links.send_to_leader(spu, key, append_reply(2, 1))

        follower.answer = answer
        for key in keys:
            for _ in range(5):
                leader.links.send_to_follower(FOLLOWER, key, _append_of(batch), batch)
        leader.links.flush()
        await follower.until_heard(5 * len(keys))
        await leader.until(lambda: {key for _, key, _ in leader.heard} == set(keys))
        assert [key for _, key, _ in follower.heard[: len(keys)]] == keys, "each has had its turn"


async def test_a_real_connection_that_ends_is_noticed_by_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_dialler, "UNUSED_SECONDS_MAX", 0.0)
    async with _real_spus() as (leader, follower):
        follower.links.unfollow(LEADER)
        await leader.until(lambda: not leader.links.is_linked(FOLLOWER, from_leader=False))
        assert not follower.links.is_linked(LEADER, from_leader=True)
