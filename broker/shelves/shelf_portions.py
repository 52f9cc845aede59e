"""Portions of a partition's log for a shelf, as its leader hands them over to any consumer."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from tailrace.broker.copies.batch_copies import fetch_records, records_of
from tailrace.broker.copies.spu_requests import SpuRequests
from tailrace.broker.peers.peer_codec import read_batches
from tailrace.cluster.specs import PartitionSpec
from tailrace.protocol.batches.record_batch import BatchHeader, stamp_as
from tailrace.protocol.ids import SpuId

CLIENT_ID = "tailrace-shelf"
PORTION_BYTES_MAX = 2 << 20
"""A batch that is larger comes all the same."""
ANSWER_SECONDS_MAX = 5.0

Portion = tuple[memoryview, Sequence[BatchHeader]]
"""Whole batches, and their headers."""

NOTHING: Portion = (memoryview(b""), ())


async def fetch_portion(
    spu_requests: SpuRequests, leader: SpuId, spec: PartitionSpec, position: int, end: int
) -> Portion:
    """From the batch on that holds the position. Raises OSError and RemoteProtocolError."""
    found = await fetch_records(spu_requests, leader, CLIENT_ID, spec, position, PORTION_BYTES_MAX, ANSWER_SECONDS_MAX)
    if found.error_code:
        raise OSError(f"the leader answers with error {found.error_code}")
    records = memoryview(records_of(found))
    return portion_of(records, spec.epoch, position, end) if records else NOTHING


def portion_of(records: memoryview, epoch: int, position: int, end: int) -> Portion:
    """What of the batches ends at or before `end`. Raises DamagedBatchError.

    No checksum covers an offset, and one that has flipped looks as if there were a gap before its batch, such as
    compaction leaves. If there is none, the next batch tells: so one behind a gap is not taken without that.
    """
    _, received = read_batches(records, epoch, position, None)
    headers = received.headers
    taken = [header for header in headers if header.next_offset <= end]
    if taken and len(taken) == len(headers) and taken[-1].next_offset != end:
        follows = taken[-2].next_offset if len(taken) > 1 else position
        if taken[-1].base_offset > follows:
            taken.pop()
    return records[: sum(header.size for header in taken)], taken


def with_rising_epochs(portion: Portion, epoch: int) -> Portion:
    """As it goes behind batches up to this epoch. Recovery stamps them again and again, and not the same ones in all
    logs: of the next leader's log a batch may have an earlier epoch than the one before it has here."""
    data, headers = portion
    epochs = [epoch, *(header.leader_epoch for header in headers)]
    if epochs == sorted(epochs):
        return portion
    stamped = bytearray(data)
    position = 0
    raised = []
    for header in headers:
        epoch = max(epoch, header.leader_epoch)
        raised.append(replace(header, leader_epoch=epoch))
        stamp_as(stamped, raised[-1], position)
        position += header.size
    return memoryview(stamped), raised


def runs_of(portion: Portion) -> Iterator[Portion]:
    """Each of one epoch, and with no control batch but for its last: see `OpenSegment.room_for`."""
    data, headers = portion
    run: list[BatchHeader] = []
    start = size = 0
    for header in headers:
        if run and (header.leader_epoch != run[-1].leader_epoch or run[-1].is_control):
            yield data[start : start + size], run
            run, start, size = [], start + size, 0
        run.append(header)
        size += header.size
    if run:
        yield data[start:], run
