"""Reads acknowledged records from the replicas of a partition, without a leader.

This module asks the replicas; `broker/replication/quorum_read.py` decides which records are acknowledged.
"""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

import trio
from msgspec import Struct

from tailrace.broker.copies.store_answers import batches_of, store_answer
from tailrace.broker.replication.quorum_read import HeldEntry, StoreAnswer, quorum_read
from tailrace.client.log_facts import Partition
from tailrace.client.server_connection import RefusedError, UnreachableError, check, reason_of, refusal
from tailrace.client.spu_client import SpuClient
from tailrace.protocol.batches.record_batch import crc_of
from tailrace.protocol.error_codes import KafkaError
from tailrace.protocol.ids import SpuId
from tailrace.protocol.internal.read_store import ReadStoreRequest

STORE_SECONDS_MAX = 3.0
"""How long to wait for a replica that may be frozen; the others may be enough."""
BYTES_MAX = 1 << 20
"""The size of the records to request from each replica."""


class QuorumFetched(Struct, frozen=True):
    """The acknowledged records that the replicas have sent."""

    start: int
    end: int
    """The offset before which everything is acknowledged; the records from `start` to `end` are in `records`."""
    may_end: int
    """The offset from which on nothing is acknowledged; between `end` and this offset it is uncertain."""
    records: bytes
    records_end: int
    """The offset after the last record; up to `end` there are only control batches or compacted records."""
    silent: tuple[str, ...]
    """Sentences about the replicas that did not respond."""


class TooFewStoresError(RefusedError):
    """Too few replicas responded to tell what is acknowledged."""


class _Place(NamedTuple):
    """The replicas of a partition."""

    topic_id: UUID
    replicas: Sequence[int]
    live: Sequence[int]


class QuorumClient:
    """Asks replicas through an `SpuClient`."""

    def __init__(self, spus: SpuClient) -> None:
        self._spus = spus

    async def read(self, partition: Partition, offset: int) -> QuorumFetched:
        """Reads acknowledged records from an offset on.

        Raises TooFewStoresError, RefusedError and UnreachableError.
        """
        place = await self._place(partition)
        request = ReadStoreRequest(place.topic_id, partition.number, offset, BYTES_MAX)
        answers: dict[int, StoreAnswer] = {}
        batches: dict[tuple[int, int], memoryview] = {}
        silent: dict[int, str] = {}

        async def ask(spu_id: int) -> None:
            try:
                with trio.fail_after(STORE_SECONDS_MAX):
                    response = await self._spus.ask(spu_id, request)
                check(response)
                answers[spu_id] = store_answer(SpuId(spu_id), response)
                batches.update({(spu_id, entry.base): batch for entry, batch in batches_of(response)})
            except trio.TooSlowError:
                silent[spu_id] = f"SPU {spu_id} does not answer within {STORE_SECONDS_MAX:.0f} seconds"
            except RefusedError as error:
                silent[spu_id] = f"SPU {spu_id} refuses: {reason_of(error)}"
            except (UnreachableError, KafkaError, ValueError) as error:
                silent[spu_id] = f"SPU {spu_id}: {error}"

        async with trio.open_nursery() as nursery:
            for spu_id in place.replicas:
                nursery.start_soon(ask, spu_id)
        reasons = tuple(silent[each] for each in sorted(silent))
        found = quorum_read(offset, answers.values(), [SpuId(each) for each in place.live])
        if found is None:
            raise TooFewStoresError(_too_few(partition, answers, reasons))
        records = b"".join(_sound_batch(each, batches) for each in found.entries)
        records_end = found.entries[-1].entry.end if found.entries else found.start
        return QuorumFetched(found.start, found.end, found.may_end, records, records_end, reasons)

    async def _place(self, partition: Partition) -> _Place:
        for topic in (await self._spus.metadata([partition.topic])).topics:
            for each in topic.partitions:
                if each.partition_index == partition.number:
                    return _Place(topic.topic_id, each.replica_nodes, each.isr_nodes)
            refused = refusal(topic)
            if refused is not None:
                raise RefusedError(f"{partition}: {reason_of(refused)}", refused.code)
        raise RefusedError(f"there is no partition {partition}")


def _sound_batch(held: HeldEntry, batches: dict[tuple[int, int], memoryview]) -> bytes:
    """Returns the batch of the first store with a correct checksum, or of any store if there is none."""
    copies = [batches[spu, held.entry.base] for spu in held.holders]
    return bytes(next((each for each in copies if crc_of(each, 0, len(each)) == held.entry.content), copies[0]))


def _too_few(partition: Partition, answers: dict[int, StoreAnswer], reasons: Sequence[str]) -> str:
    """Returns a sentence that says why the replicas are too few."""
    unsure = [f"SPU {each} may have lost something" for each in sorted(answers) if answers[each].in_doubt]
    others = [f"SPU {each} is not live" for each in sorted(answers) if not answers[each].in_doubt]
    said = "; ".join([*reasons, *unsure]) or ", ".join(others)
    return f"{partition}: too few replicas respond to tell what is acknowledged: {said}"
