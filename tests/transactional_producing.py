"""Transactional produce requests to a running SPU, and a stand-in for the coordinators of their transactions."""

from collections.abc import Mapping
from typing import Any

import trio
from producing import request
from simulation.client import WireClient
from spus import RunningSpu, batch

from tailrace.cluster.specs import TopicPartition
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.produce import ProduceRequest
from tailrace.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

TV1, TV2 = 11, 12
"""The versions of Produce of clients that add partitions to transactions themselves, and of those that do not."""
PRODUCER = 7


class Coordinators:
    """Confirms transactions as a test says, and remembers the questions."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, int, frozenset[TopicPartition], bool]] = []
        self.codes: dict[TopicPartition, ErrorCode] = {}
        """The responses other than NONE."""
        self.error: KafkaError | None = None
        self.answer_at_once = False
        """Whether the response is there when the question was asked, as that of a coordinator on the same SPU."""
        self.may_answer = trio.Event()
        self.may_answer.set()

    def ask_to_add(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: frozenset[TopicPartition],
        *,
        verify_only: bool,
    ) -> "_Question":
        self.asked.append((transactional_id, producer_id, producer_epoch, partitions, verify_only))
        return _Question(self, partitions)

    async def add_partitions(self, *producer: Any, verify_only: bool) -> Mapping[TopicPartition, ErrorCode]:
        return await self.ask_to_add(*producer, verify_only=verify_only).wait()


class _Question:
    def __init__(self, coordinators: Coordinators, partitions: frozenset[TopicPartition]) -> None:
        self._coordinators = coordinators
        self._partitions = partitions

    @property
    def added(self) -> Mapping[TopicPartition, ErrorCode] | None:
        coordinators = self._coordinators
        return self._codes() if coordinators.answer_at_once and coordinators.error is None else None

    async def wait(self) -> Mapping[TopicPartition, ErrorCode]:
        await self._coordinators.may_answer.wait()
        if self._coordinators.error is not None:
            raise self._coordinators.error
        return self._codes()

    def _codes(self) -> Mapping[TopicPartition, ErrorCode]:
        return {each: self._coordinators.codes.get(each, ErrorCode.NONE) for each in self._partitions}


def with_coordinators(running: RunningSpu) -> Coordinators:
    """Gives the SPU coordinators that confirm everything."""
    coordinators: Any = Coordinators()
    running.spu.transactions = coordinators
    found: Coordinators = coordinators
    return found


def inside(value: bytes, sequence: int, *, epoch: int = 0, producer: int = PRODUCER) -> bytes:
    """A batch of a transaction, with one record."""
    return batch(value, is_transactional=True, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)


def outside(value: bytes, sequence: int) -> bytes:
    """A batch of the same producer that belongs to no transaction."""
    return batch(value, producer_id=PRODUCER, producer_epoch=0, base_sequence=sequence)


def transactional(*records: bytes | None, acks: int = -1, topic: str = "t") -> ProduceRequest:
    produce = request(*records, acks=acks, topic=topic)
    produce.transactional_id = "id"
    return produce


async def end_transaction(
    client: WireClient,
    epoch: int,
    *,
    is_commit: bool = True,
    coordinator_epoch: int = 0,
    topic: str = "t",
    partitions: tuple[int, ...] = (0,),
    transaction_version: int = 1,
) -> list[int]:
    """Writes markers, and returns the error codes."""
    marker = WritableTxnMarker(
        PRODUCER,
        epoch,
        is_commit,
        [WritableTxnMarkerTopic(topic, list(partitions))],
        coordinator_epoch,
        transaction_version,
    )
    response = await client.request(ApiKey.WRITE_TXN_MARKERS, 2, WriteTxnMarkersRequest([marker]))
    (result,) = response.markers
    assert result.producer_id == PRODUCER
    return [each.error_code for each in result.topics[0].partitions]
