"""Which stores are asked for a damaged tail, and what follows from their responses."""

from collections.abc import Mapping, Sequence

import pytest
from batch_samples import header_of, make_batch
from logs import log_at
from simulation.files import SimulatedFile, SimulatedFiles

from tailrace.broker.copies.damaged_tail_query import DamagedTail, DamagedTailQuery
from tailrace.broker.copies.store_answers import membership_of
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.topic_settings import settings_of
from tailrace.broker.replication.quorum_read import StoreAnswer
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.specs import PartitionSpec
from tailrace.protocol.batches.control_batches import hole
from tailrace.protocol.ids import Epoch, SpuId, TopicId
from tailrace.storage.segments.segment_scrub import OpenSegmentPrefix

pytestmark = pytest.mark.trio

HERE, B, C = COPY_SET = tuple(map(SpuId, (1, 2, 3)))
BATCH_BYTES, BATCHES, LOST = 100, 9, 5


@pytest.fixture
def files() -> SimulatedFiles:
    return SimulatedFiles()


@pytest.fixture
async def replica(files: SimulatedFiles) -> Replica:
    """A replica with nine batches: the sixth is damaged, and only the first three are known to be committed."""
    spec = PartitionSpec(TopicId(int=7), "t", 0, HERE, Epoch(5), COPY_SET, COPY_SET)
    settings = settings_of({"replication.policy": "majority"}, BrokerConfigs({}))
    files.make_directories("/data")
    log = log_at(files, "/data/topics/t/7/0", settings.log, clean=True)
    for number in range(BATCHES):
        batch = make_batch(number, size=BATCH_BYTES, epoch=5)
        log.append(batch, header_of(batch))
    await log.sync()
    flip(log.read_batches(LOST, LOST + 1)[0].file, LOST * BATCH_BYTES + 70)
    replica = Replica(HERE, spec, log, settings, 3)
    log.may_roll = lambda base: False
    return replica


def flip(file: object, position: int) -> None:
    assert isinstance(file, SimulatedFile)
    file.write_at(position, bytes([file.read_at(position, 1)[0] ^ 1]))


async def tail_of(replica: Replica, *, offset: int = LOST, is_only_damage: bool = True) -> DamagedTail:
    segment = await replica.log.damaged_segment(0)
    assert isinstance(segment, OpenSegmentPrefix)
    return DamagedTail(segment, offset * BATCH_BYTES, offset, is_only_damage)


class _Stores:
    """Other stores with their batch at the damaged offset; None for a store that does not respond."""

    def __init__(self, replica: Replica, held: Mapping[SpuId, bytes | bytearray | None]) -> None:
        self.own_id = HERE
        self.held = held
        self.in_doubt: Sequence[SpuId] = ()
        self.log_start = 0
        self.asked: list[SpuId] = []
        self._membership = membership_of(replica)

    def holders(self, replica: Replica) -> Sequence[SpuId]:
        return []

    async def fetch(self, spu: SpuId, replica: Replica, offset: int, *, is_committed: bool) -> bytes:
        return b""

    async def inspect(self, spu: SpuId, replica: Replica, offset: int) -> tuple[StoreAnswer, bytes] | None:
        self.asked.append(spu)
        copy = self.held.get(spu)
        if copy is None:
            return None
        doubt = spu in self.in_doubt
        return StoreAnswer(spu, self._membership, Epoch(5), doubt, 0, self.log_start, 9, 9, ()), bytes(copy)


async def test_a_tail_that_no_other_store_has_may_be_truncated(replica: Replica) -> None:
    stores = _Stores(replica, {B: b"", C: b""})
    assert await DamagedTailQuery(stores).may_truncate(replica, await tail_of(replica))
    assert stores.asked == [B, C]


async def test_committed_batches_are_never_truncated(replica: Replica) -> None:
    stores = _Stores(replica, {B: b"", C: b""})
    replica.high_watermark = LOST + 1
    assert not await DamagedTailQuery(stores).may_truncate(replica, await tail_of(replica))
    assert stores.asked == []


async def test_a_tail_that_another_store_may_have_is_not_truncated(replica: Replica) -> None:
    same = make_batch(LOST, size=BATCH_BYTES, epoch=7)
    later = make_batch(LOST + 1, size=BATCH_BYTES, epoch=5)
    compacted = make_batch(LOST, size=BATCH_BYTES, epoch=5)
    compacted[57:61] = bytes(4)
    for copy in (None, same, later, compacted, b"no batch at all" * 9):
        assert not await DamagedTailQuery(_Stores(replica, {B: b"", C: copy})).may_truncate(
            replica, await tail_of(replica)
        ), copy
    deleted = _Stores(replica, {B: b"", C: b""})
    deleted.log_start = LOST + 1
    assert not await DamagedTailQuery(deleted).may_truncate(replica, await tail_of(replica))
    doubtful = _Stores(replica, {B: b"", C: b""})
    doubtful.in_doubt = (C,)
    assert not await DamagedTailQuery(doubtful).may_truncate(replica, await tail_of(replica))


async def test_a_different_batch_elsewhere_proves_the_tail_uncommitted_if_it_is_the_only_damage(
    replica: Replica,
) -> None:
    other, before = make_batch(LOST, size=BATCH_BYTES, timestamp=3, epoch=6), make_batch(LOST - 1, 3, epoch=6)
    for copy in (other, before, hole(LOST, LOST + 1, Epoch(6))):
        stores = _Stores(replica, {B: b"", C: copy})
        assert await DamagedTailQuery(stores).may_truncate(replica, await tail_of(replica))
    with_more = _Stores(replica, {B: b"", C: other})
    assert not await DamagedTailQuery(with_more).may_truncate(replica, await tail_of(replica, is_only_damage=False))


async def test_a_segment_that_has_changed_meanwhile_proves_nothing(replica: Replica) -> None:
    tail = await tail_of(replica)
    await replica.log.truncate(LOST + 1)
    stores = _Stores(replica, {B: b"", C: make_batch(LOST, size=BATCH_BYTES, timestamp=3, epoch=6)})
    assert not await DamagedTailQuery(stores).may_truncate(replica, tail)


async def test_the_file_of_a_segment_that_is_deleted_meanwhile_is_not_created_again(
    replica: Replica, files: SimulatedFiles
) -> None:
    tail = await tail_of(replica)
    stores = _Stores(replica, {B: b"", C: make_batch(LOST, size=BATCH_BYTES, timestamp=3, epoch=6)})
    await replica.log.truncate_fully(100)
    assert not await DamagedTailQuery(stores).may_truncate(replica, tail)
    assert not files.exists(tail.segment.reader.log.path)
