"""Describes partitions from the Local Store and from what SPUs respond about their replicas."""

from collections.abc import Awaitable, Callable, Sequence

import trio

from tailrace.cluster.specs import NO_LEADER
from tailrace.controller.objects.objects import Partition
from tailrace.controller.partitions.copy_sets import coming_and_going, wanted_row
from tailrace.controller.state.local_store import LocalStore
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import SpuId, TopicId
from tailrace.protocol.internal.describe_partitions import DescribedPartition, DescribedShelf, EpochStart, ReplicaDetail
from tailrace.protocol.internal.describe_replicas import (
    DescribedReplica,
    DescribedTopic,
    DescribeReplicasRequest,
    DescribeReplicasResponse,
)

from .spu_responses import NoResponseError, response_of

RESPONSE_SECONDS_MAX = 2.0

Ask = Callable[[SpuId, DescribeReplicasRequest], Awaitable[DescribeReplicasResponse]]
"""Asks an SPU. Raises LinkClosed, with a sentence, if the SPU cannot be asked."""
_ReplicaKey = tuple[SpuId, TopicId, int]


class PartitionDescriptions:
    """Describes partitions on request."""

    def __init__(self, local: LocalStore, ask: Ask) -> None:
        self._local = local
        self._ask = ask

    async def describe(self, names: Sequence[str] | None, epochs_max: int = 0) -> list[DescribedPartition]:
        """Describes the partitions of the named topics, or of all. Raises KafkaError.

        The description has the last `epochs_max` leader epochs of each replica, and the shelves if `epochs_max` is not
        zero. If an SPU does not respond soon, the description says so.
        """
        partitions = self._partitions(names)
        held: dict[SpuId, list[Partition]] = {}
        for partition in partitions:
            for spu in partition.spec.replicas:
                held.setdefault(spu, []).append(partition)
        details: dict[_ReplicaKey, ReplicaDetail] = {}
        silent: dict[SpuId, str] = {}
        async with trio.open_nursery() as nursery:
            for spu, its_partitions in held.items():
                nursery.start_soon(self._ask_one, spu, its_partitions, epochs_max, details, silent)
        return [self._described(each, details, silent, with_shelves=epochs_max > 0) for each in partitions]

    def _described(
        self,
        partition: Partition,
        details: dict[_ReplicaKey, ReplicaDetail],
        silent: dict[SpuId, str],
        *,
        with_shelves: bool,
    ) -> DescribedPartition:
        status, replicas = partition.status, partition.spec.replicas
        wanted = wanted_row(partition, self._local.topics_by_id.get(partition.topic_id))
        adding, removing = coming_and_going(partition, wanted)
        return DescribedPartition(
            partition.topic,
            partition.topic_id,
            partition.number,
            status.resolution.value,
            status.leads if self._is_online(status.leads) else NO_LEADER,
            status.epoch,
            list(replicas),
            [spu for spu in status.live_replicas if self._is_online(spu)],
            status.reason,
            [
                details.get((spu, partition.topic_id, partition.number))
                or ReplicaDetail(spu, error_message=silent.get(spu, f"SPU {spu} does not know the partition yet"))
                for spu in replicas
            ],
            list(adding),
            list(removing),
            shelved_from=partition.spec.shelved_from,
            shelves=[
                DescribedShelf(each.base, each.end, list(each.stores), list(each.filling))
                for each in (partition.spec.shelves if with_shelves else ())
            ],
            electable=[spu for spu in status.live_replicas if not self._is_online(spu)],
        )

    def _is_online(self, spu: SpuId) -> bool:
        return spu in self._local.spus and self._local.spus[spu].is_online

    def _partitions(self, names: Sequence[str] | None) -> list[Partition]:
        topics = self._local.topics
        for name in names or ():
            if name not in topics:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name:.300}")
        return [
            partition
            for name in sorted(set(topics if names is None else names))
            for _, partition in sorted(self._local.partitions_of(topics[name].id).items())
        ]

    async def _ask_one(
        self,
        spu: SpuId,
        partitions: Sequence[Partition],
        epochs_max: int,
        details: dict[_ReplicaKey, ReplicaDetail],
        silent: dict[SpuId, str],
    ) -> None:
        asked: dict[TopicId, list[int]] = {}
        for partition in partitions:
            asked.setdefault(partition.topic_id, []).append(partition.number)
        topics = [DescribedTopic(topic_id, numbers) for topic_id, numbers in asked.items()]
        request = DescribeReplicasRequest(topics, epochs_max)
        try:
            response = await response_of(spu, request, self._ask, self._local, RESPONSE_SECONDS_MAX)
        except NoResponseError as reason:
            silent[spu] = str(reason)
        else:
            for replica in response.replicas:
                details[spu, replica.topic_id, replica.partition] = _detail(spu, replica)


def _detail(spu: SpuId, replica: DescribedReplica) -> ReplicaDetail:
    return ReplicaDetail(
        spu,
        replica.log_start,
        replica.log_end,
        replica.high_watermark,
        replica.size_bytes,
        replica.error_message,
        replica.epoch,
        [EpochStart(each.epoch, each.start) for each in replica.epochs],
        replica.older_epochs,
        replica.is_leader,
    )
