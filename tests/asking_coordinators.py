"""Asks the coordinators of SPUs, without requests of clients. The coordinators are those of groups."""

from collections.abc import Callable

import trio
from clusters import ClusterOfSpus
from grouping import Asked
from spus import RunningSpu
from trio.testing import wait_all_tasks_blocked

from tailrace.broker.coordination.moment import Moment
from tailrace.broker.groups.common.coordinator_records import GroupRecord
from tailrace.broker.groups.coordinator.coordinator import Coordinator
from tailrace.broker.replicas.replica import Replica
from tailrace.broker.spu import Spu
from tailrace.cluster.coordinators import GROUPS_TOPIC, partition_of
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.batches.record_batch import iterate
from tailrace.protocol.batches.records import read_records
from tailrace.protocol.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest

FEW = {"offsets.topic.num.partitions": "3"}


def commit(offset: int, group: str = "g") -> Callable[[Coordinator, Moment, Asked], None]:
    record = GroupRecord(OffsetCommitKey(group, "t", 0), OffsetCommitValue(offset))

    def call(coordinator: Coordinator, moment: Moment, asked: Asked) -> None:
        coordinator.output.append(record)
        coordinator.output.respond(asked, offset)

    return call


def ask(spu: Spu, call: Callable[[Coordinator, Moment, Asked], None], group: str = "g") -> Asked:
    asked = Asked()
    spu.groups.ask(group, asked, lambda coordinator, moment: call(coordinator, moment, asked))
    spu.end_turn()
    return asked


def tell(coordinator: Coordinator, moment: Moment, asked: Asked) -> None:
    coordinator.output.respond(asked, "told")


async def find(running: RunningSpu | ClusterOfSpus, group: str = "g") -> int:
    """Asks the first SPU for the coordinator, as clients do."""
    client = await (running.client() if isinstance(running, RunningSpu) else running.client_of(1))
    answer = await client.request(ApiKey.FIND_COORDINATOR, 1, FindCoordinatorRequest(key=group))
    await wait_all_tasks_blocked()
    node: int = answer.node_id
    return node


def replica_of(spu: Spu, group: str = "g") -> Replica:
    partitions = len(spu.cluster.topics[GROUPS_TOPIC].partitions)
    found = spu.replicas.find(GROUPS_TOPIC, partition_of(group, partitions))
    assert found is not None
    return found


def records(spu: Spu, group: str = "g") -> int:
    log = replica_of(spu, group).log
    count = 0
    for each in log.read_batches(log.log_start, log.log_end):
        data = memoryview(each.read())
        for position, header in iterate(data):
            if not header.is_control:
                count += len(read_records(data[position : position + header.size]))
    return count


async def coordinator_of(cluster: ClusterOfSpus, group: str = "g") -> Spu:
    node = await find(cluster, group)
    await trio.sleep(1)
    return cluster.spus[node].spu
