"""Who is asked about what is damaged at the end of a log, and what is made of the answers."""

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
    """Of nine batches, the sixth of which is damaged and nothing behind the third known to be committed."""
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


async def lost_of(replica: Replica, *, offset: int = LOST, is_alone: bool = True) -> DamagedTail:
    segment = await replica.log.damaged_segment(0)
    assert isinstance(segment, OpenSegmentPrefix)
    return DamagedTail(segment, offset * BATCH_BYTES, offset, is_alone)


class _Stores:
    """What others have at the offset that was lost; None: who does not answer."""

    def __init__(self, replica: Replica, held: Mapping[SpuId, bytes | bytearray | None]) -> None:
        self.here = HERE
        self.held = held
        self.in_doubt: Sequence[SpuId] = ()
        self.log_start = 0
        self.asked: list[SpuId] = []
        self._membership = membership_of(replica)

    def holders(self, replica: Replica) -> Sequence[SpuId]:
        return []

    async def fetch(self, spu: SpuId, replica: Replica, offset: int, *, is_committed: bool) -> bytes:
        return b""

    async def look(self, spu: SpuId, replica: Replica, offset: int) -> tuple[StoreAnswer, bytes] | None:
        self.asked.append(spu)
        copy = self.held.get(spu)
        if copy is None:
            return None
        doubt = spu in self.in_doubt
        return StoreAnswer(spu, self._membership, Epoch(5), doubt, 0, self.log_start, 9, 9, ()), bytes(copy)


async def test_an_end_that_nobody_else_has_is_lone(replica: Replica) -> None:
    stores = _Stores(replica, {B: b"", C: b""})
    assert await DamagedTailQuery(stores).may_truncate_tail(replica, await lost_of(replica))
    assert stores.asked == [B, C]


async def test_what_is_known_to_be_committed_is_not_asked_for(replica: Replica) -> None:
    stores = _Stores(replica, {B: b"", C: b""})
    replica.high_watermark = LOST + 1
    assert not await DamagedTailQuery(stores).may_truncate_tail(replica, await lost_of(replica))
    assert stores.asked == []


async def test_nothing_is_lone_that_somebody_may_have(replica: Replica) -> None:
    same = make_batch(LOST, size=BATCH_BYTES, epoch=7)
    later = make_batch(LOST + 1, size=BATCH_BYTES, epoch=5)
    compacted = make_batch(LOST, size=BATCH_BYTES, epoch=5)
    compacted[57:61] = bytes(4)
    for copy in (None, same, later, compacted, b"no batch at all" * 9):
        assert not await DamagedTailQuery(_Stores(replica, {B: b"", C: copy})).may_truncate_tail(
            replica, await lost_of(replica)
        ), copy
    deleted = _Stores(replica, {B: b"", C: b""})
    deleted.log_start = LOST + 1
    assert not await DamagedTailQuery(deleted).may_truncate_tail(replica, await lost_of(replica))
    doubtful = _Stores(replica, {B: b"", C: b""})
    doubtful.in_doubt = (C,)
    assert not await DamagedTailQuery(doubtful).may_truncate_tail(replica, await lost_of(replica))


async def test_what_others_have_instead_is_something_else_if_nothing_but_this_is_damaged(replica: Replica) -> None:
    other, before = make_batch(LOST, size=BATCH_BYTES, timestamp=3, epoch=6), make_batch(LOST - 1, 3, epoch=6)
    for copy in (other, before, hole(LOST, LOST + 1, Epoch(6))):
        stores = _Stores(replica, {B: b"", C: copy})
        assert await DamagedTailQuery(stores).may_truncate_tail(replica, await lost_of(replica))
    with_more = _Stores(replica, {B: b"", C: other})
    assert not await DamagedTailQuery(with_more).may_truncate_tail(replica, await lost_of(replica, is_alone=False))


async def test_nothing_is_told_of_a_segment_that_has_changed_meanwhile(replica: Replica) -> None:
    lost = await lost_of(replica)
    await replica.log.truncate(LOST + 1)
    stores = _Stores(replica, {B: b"", C: make_batch(LOST, size=BATCH_BYTES, timestamp=3, epoch=6)})
    assert not await DamagedTailQuery(stores).may_truncate_tail(replica, lost)


async def test_the_file_of_a_segment_that_goes_meanwhile_is_not_made_anew(
    replica: Replica, files: SimulatedFiles
) -> None:
    lost = await lost_of(replica)
    stores = _Stores(replica, {B: b"", C: make_batch(LOST, size=BATCH_BYTES, timestamp=3, epoch=6)})
    await replica.log.truncate_fully(100)
    assert not await DamagedTailQuery(stores).may_truncate_tail(replica, lost)
    assert not files.exists(lost.segment.reader.log.path)
