"""Responses to ReadStore from real logs, including the design's example of a hole that wins over an event."""

from collections.abc import Sequence

import pytest
from batch_samples import header_of
from logs import log_at
from msgspec import Struct
from msgspec.structs import replace
from simulation.client import WireClient
from simulation.files import SimulatedFile, SimulatedFiles
from spus import RunningSpu, batch, led_elsewhere, running_spu

from tailrace.broker.copies import store_reading
from tailrace.broker.copies.store_answers import batches_of, store_answer
from tailrace.broker.copies.store_reading import read_from_store
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.broker.replicas.topic_settings import settings_of
from tailrace.broker.replication.quorum_read import QuorumRead, quorum_read
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.specs import NO_LEADER, PartitionSpec
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.batches.control_batches import hole
from tailrace.protocol.batches.record_batch import stamp
from tailrace.protocol.batches.records import read_records
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.ids import Epoch, SpuId, TopicId
from tailrace.protocol.internal.read_store import CopySet, ReadStoreRequest, ReadStoreResponse
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

A, B, C = STORES = tuple(map(SpuId, (1, 2, 3)))
TOPIC = TopicId(int=7)


class Replication(Struct):
    promised: Epoch = Epoch(2)
    is_sure: bool = True
    reaches_peers: bool = True


async def _replica(
    spu: SpuId, *batches: tuple[bytes, int], high_watermark: int = 0, spec_epoch: int = 2, **configs: str
) -> Replica:
    """Makes a replica with these batches, each with an epoch."""
    files = SimulatedFiles()
    files.make_directories("/data")
    settings = settings_of({"replication.policy": "nrw:3,2,2", **configs}, BrokerConfigs({}))
    spec = PartitionSpec(TOPIC, "t", 0, A, Epoch(spec_epoch), STORES, STORES, version=4)
    log = log_at(files, "/data/topics/t/7/0", settings.log, clean=True)
    for content, epoch in batches:
        stamped = bytearray(content)
        stamp(stamped, 0, log.log_end, epoch)
        log.append(stamped, header_of(stamped))
    replica = Replica(spu, spec, log, settings, high_watermark)
    replica.replication = Replication()  # type: ignore[assignment]
    return replica


def _asked(replica: Replica, offset: int = 0, bytes_max: int = 1 << 20) -> ReadStoreResponse:
    replicas = ReplicaRegistry(replica.spec.leader, Cluster())
    replicas.add(replica)
    return read_from_store(replicas, ReadStoreRequest(TOPIC, 0, offset, bytes_max))


def _read(position: int, *stores: Replica) -> tuple[QuorumRead | None, list[bytes | None]]:
    """Reads from a quorum; returns the values too."""
    names = dict(zip(STORES[: len(stores)], stores, strict=True))
    responses = {spu: _asked(each, position) for spu, each in names.items()}
    found = quorum_read(position, [store_answer(spu, each) for spu, each in responses.items()])
    bytes_of = {(spu, entry.base): data for spu, each in responses.items() for entry, data in batches_of(each)}
    read = [] if found is None else [bytes_of[each.holders[0], each.entry.base] for each in found.entries]
    return found, [record.value for each in read for record in read_records(each)]


def _hole(offset: int) -> bytes:
    return bytes(hole(offset, offset + 1, 2))


async def test_of_a_hole_and_an_event_at_one_offset_the_larger_epoch_wins() -> None:
    """Tests the example of the design, with offsets from 0 and N = 3, R = W = 2.

    Leader 1 wrote e1, e2 and e3 to A, and B and C missed e2. Leader 2 recovered from B and C.
    """
    e1, e2, e3 = batch(b"e1"), batch(b"e2"), batch(b"e3")
    a = await _replica(A, (e1, 1), (e2, 1), (e3, 1), spec_epoch=1)
    recovered = ((e1, 2), (_hole(1), 2), (e3, 2))
    b, c = await _replica(B, *recovered), await _replica(C, *recovered)
    found, values = _read(0, a, b)
    assert (found, values) == (QuorumRead(0, 0, 3, ()), [])  # e1 to e3 may be committed, but nothing is proven
    found, values = _read(0, a, b, c)
    assert found is not None and (found.end, found.may_end) == (3, 3) and values == [b"e1", b"e3"]
    b.high_watermark = 3  # leader 2 has told B the high watermark
    found, values = _read(0, a, b)
    assert found is not None and (found.end, found.may_end) == (3, 3) and values == [b"e1", b"e3"]
    found, values = _read(1, a, b)
    assert found is not None and (found.start, found.end) == (1, 3) and values == [b"e3"]


async def test_the_response_has_the_state_and_the_membership() -> None:
    replica = await _replica(A, (batch(b"x"), 1), (batch(b"y"), 1), high_watermark=1, **{"min.insync.replicas": "2"})
    replica.spec = replace(replica.spec, leader=NO_LEADER, live_replicas=(A, B), copy_sets=((A, B, C), (B, C)))
    assert replace(_asked(replica), records=b"") == ReadStoreResponse(
        promised=2,
        in_doubt=False,
        high_watermark=1,
        log_start=0,
        log_end=2,
        policy="nrw:3,2,2",
        replicas_min=2,
        leader=-1,
        epoch=2,
        version=4,
        replicas=[A, B, C],
        live_replicas=[A, B],
        copy_sets=[CopySet([A, B, C]), CopySet([B, C])],
    )
    replica.replication = Replication(is_sure=False)  # type: ignore[assignment]
    assert _asked(replica).in_doubt
    replica.replication = None
    assert _asked(replica).in_doubt, "it is not known what the store lacks"


async def test_the_response_has_as_many_batches_as_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    replica = await _replica(A, *((batch(b"%d" % number), 1) for number in range(5)))
    size = len(batch(b"0"))

    def bases(offset: int, bytes_max: int = 1 << 20) -> list[int]:
        return [entry.base for entry, _ in batches_of(_asked(replica, offset, bytes_max))]

    assert (bases(1, 2 * size), bases(1, 0), bases(1)) == ([1, 2], [1], [1, 2, 3, 4])
    assert bases(5) == bases(9) == []
    monkeypatch.setattr(store_reading, "READ_BYTES_MAX", size)
    assert bases(1) == [1]


async def test_batches_that_must_be_synced_first_do_not_count_before(autojump_clock: object) -> None:
    replica = await _replica(A, (batch(b"x"), 1), **{"flush.messages": "1"})
    await replica.log.sync()
    more = bytearray(batch(b"y"))
    stamp(more, 0, 1, 1)
    replica.log.append(more, header_of(more))
    assert (_asked(replica).log_end, len(batches_of(_asked(replica)))) == (1, 1)
    replica.high_watermark = 2  # it is on two other disks
    assert (_asked(replica).log_end, len(batches_of(_asked(replica)))) == (2, 2)


async def test_reading_begins_at_the_log_start() -> None:
    replica = await _replica(A, *((batch(b"%d" % number), 1) for number in range(5)), high_watermark=5)
    await replica.log.advance_log_start(3)
    answer = _asked(replica)
    assert (answer.log_start, [entry.base for entry, _ in batches_of(answer)]) == (3, [3, 4])


async def _filled(running: RunningSpu) -> Sequence[object]:
    await running.create("t")
    client: WireClient = await running.client()
    data = [TopicProduceData(name="t", partition_data=[PartitionProduceData(0, batch(b"a", b"b"))])]
    return [await client.request(ApiKey.PRODUCE, 9, ProduceRequest(acks=1, timeout_ms=1000, topic_data=data))]


async def test_a_single_replica_is_a_quorum(autojump_clock: object) -> None:
    async with running_spu() as running:
        await _filled(running)
        request = ReadStoreRequest(running.spu.cluster.topics["t"].id, 0, 0, 1000)
        answer = read_from_store(running.spu.replicas, request)
        found = quorum_read(0, [store_answer(SpuId(1), answer)])
        assert found is not None and (found.end, found.may_end) == (2, 2)
        led_elsewhere(running.replica("t"))
        assert read_from_store(running.spu.replicas, request).records == answer.records, "whoever leads"


async def test_an_unknown_partition_or_an_unreadable_log_is_refused(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_spu() as running:
        await _filled(running)
        topic_id = running.spu.cluster.topics["t"].id
        nowhere = read_from_store(running.spu.replicas, ReadStoreRequest(topic_id, 9))
        assert (nowhere.error_code, nowhere.error_message) == (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "t has no partition 9",
        )

        def read_at(self: SimulatedFile, *_: object) -> bytes:
            raise OSError("a bad sector")

        monkeypatch.setattr(SimulatedFile, "read_at", read_at)
        failed = read_from_store(running.spu.replicas, ReadStoreRequest(topic_id, 0))
        assert failed.error_code == ErrorCode.KAFKA_STORAGE_ERROR and "a bad sector" in (failed.error_message or "")
