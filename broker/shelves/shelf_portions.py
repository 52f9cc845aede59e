"""Fetches portions of a leader's log for a copy of a shelf, and checks which batches may be used.

This is the storing SPU's side. The requests are fetches, like those of any consumer.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from tailrace.broker.copies.batch_copies import READ_COMMITTED, fetch_records, records_of
from tailrace.broker.copies.spu_requests import SpuRequests
from tailrace.broker.peers.peer_codec import read_batches
from tailrace.cluster.specs import PartitionSpec
from tailrace.protocol.batches.record_batch import BatchHeader, stamp_as
from tailrace.protocol.batches.transaction_markers import is_marker
from tailrace.protocol.ids import SpuId

CLIENT_ID = "tailrace-shelf"
PORTION_BYTES_MAX = 2 << 20
"""The size of a portion. A single batch may be larger."""
RESPONSE_SECONDS_MAX = 5.0

Portion = tuple[memoryview, Sequence[BatchHeader]]
"""Complete batches, and their headers."""

NOTHING: Portion = (memoryview(b""), ())

AbortedFirsts = Mapping[int, int]
"""The first offset of the last aborted transaction of each producer in a portion."""


async def fetch_portion(
    spu_requests: SpuRequests, leader: SpuId, spec: PartitionSpec, position: int, end: int
) -> tuple[Portion, AbortedFirsts]:
    """Fetches a portion that begins with the batch that contains `position`, and what was aborted in it.

    Every transaction in the portion is decided, although the marker may be behind the portion. Raises OSError and
    RemoteProtocolError.
    """
    found = await fetch_records(
        spu_requests,
        leader,
        CLIENT_ID,
        spec,
        position,
        PORTION_BYTES_MAX,
        RESPONSE_SECONDS_MAX,
        isolation_level=READ_COMMITTED,
    )
    if found.error_code:
        raise OSError(f"the leader responded with error {found.error_code}")
    records = memoryview(records_of(found))
    portion = portion_of(records, spec.epoch, position, end) if records else NOTHING
    aborted = found.aborted_transactions or ()
    return portion, aborted_firsts(portion, [(each.producer_id, each.first_offset) for each in aborted])


def aborted_firsts(portion: Portion, aborted: Iterable[tuple[int, int]]) -> AbortedFirsts:
    """Returns the first offset of each producer's last aborted transaction in the portion.

    `aborted` are producers and first offsets of aborted transactions. Some may begin behind the portion.
    """
    _, headers = portion
    end = headers[-1].next_offset if headers else 0
    return {producer_id: first_offset for producer_id, first_offset in sorted(aborted) if first_offset < end}


def portion_of(records: memoryview, epoch: int, position: int, end: int) -> Portion:
    """Returns the batches that end at or before `end`. Raises DamagedBatchError.

    No checksum covers the offset of a batch. A flipped offset looks like a gap before the batch, such as compaction
    leaves. The next batch shows whether the gap is real, so the last batch is not taken if it follows a gap.
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
    """Raises the epochs of batches where needed, so that they do not fall from one batch to the next.

    `epoch` is the epoch of the batch before the portion. Recovery stamps batches with new epochs, and not the same ones
    in all logs. So a batch from the next leader may have an earlier epoch than the batch before it, from the last one.
    """
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
    """Splits a portion into runs that can be appended at once: see `OpenSegment.room_for`.

    Each run has one epoch, and at most one control batch of recovery, which is its last batch.
    """
    data, headers = portion
    run: list[BatchHeader] = []
    start = size = 0
    for header in headers:
        if run and (header.leader_epoch != run[-1].leader_epoch or (run[-1].is_control and not is_marker(run[-1]))):
            yield data[start : start + size], run
            run, start, size = [], start + size, 0
        run.append(header)
        size += header.size
    if run:
        yield data[start:], run
