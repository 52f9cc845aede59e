"""Plans another spec for a topic: its partitions, its replicas and its configs.

The spec is what a person wants, and the status is what the Streaming Controller has decided. A topic that has no
replicas yet is decided anew. In a topic that has some, the spec decides as follows:

- A row in `replicaMap` moves the partition to these SPUs.
- A partition without a row stays where it is, as far as the replication factor allows.

The Streaming Controller may move a replica by itself, for example away from an SPU that stays offline. It leaves the
spec as it is, and does not return to the row when the SPU is back. Applying the same spec again moves the replica back,
and a spec without the row accepts where the replica is.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from tailrace.cluster.configs.topic_configs import check_unchanged
from tailrace.cluster.replica_assignment import InsufficientResources, Load, Row, fault_of_rows
from tailrace.cluster.replica_changes import Places, with_factor
from tailrace.cluster.replication_policy import policy_of, quorum_sizes
from tailrace.cluster.topic_names import INTERNAL_TOPICS
from tailrace.cluster.topic_planning import check_added
from tailrace.controller.objects.objects import (
    Object,
    ReplicaMap,
    Topic,
    TopicResolution,
    TopicSpec,
    TopicStatus,
)
from tailrace.controller.spus.spu_selection import accepting_spus, is_unwanted, staying_spus
from tailrace.controller.state.actions import Put
from tailrace.controller.state.local_store import LocalStore
from tailrace.controller.state.observed import Observed
from tailrace.protocol.error_codes import ErrorCode, KafkaError

from .change_planning import check_topic_size, find_existing
from .planned_changes import Planned


def plan_topic_update(wanted: Topic, local: LocalStore, observed: Observed) -> Planned[Object]:
    """Plans another spec for an existing topic. Raises KafkaError if it is impossible."""
    topic, spec = find_existing(wanted.name, local), wanted.spec
    check_topic_size(topic.name, spec.partitions, spec.replication_factor)
    _check_partitions(topic, spec)
    if topic.status.resolution is not TopicResolution.PROVISIONED:
        # The new resolution also tells the caller's wait for a decision that the old one is out of date.
        anew: Object = replace(topic, spec=spec, status=TopicStatus(TopicResolution.INIT))
        return Planned(anew, (Put(anew),))
    check_unchanged(topic.spec.configs, spec.configs)
    rows = {**topic.status.replica_map, **_rows_by_hand(topic, spec, local, observed)}
    rows |= _rows_with_factor(rows, topic, spec, local, observed)
    changed = replace(topic, spec=spec, status=replace(topic.status, replica_map=rows))
    return Planned(changed, (Put(changed),) if changed != topic else ())


def _check_partitions(topic: Topic, spec: TopicSpec) -> None:
    there = len(topic.status.replica_map)
    if spec.partitions < there:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"{topic.name} has {there} partitions, and {spec.partitions} is less; partitions cannot be removed",
        )
    if topic.name in INTERNAL_TOPICS and spec.partitions != topic.spec.partitions:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"{topic.name} must keep its {topic.spec.partitions} partitions, because their number decides what is "
            "stored in which",
        )
    check_added(spec.partitions - there)


def _rows_by_hand(topic: Topic, spec: TopicSpec, local: LocalStore, observed: Observed) -> ReplicaMap:
    """Returns the rows of the spec for partitions that exist and should move, after checking all rows."""
    there = topic.status.replica_map
    fault = fault_of_rows(spec.replica_map, local.spus)
    if fault is not None:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"replicaMap: {fault}")
    moved = {number: row for number, row in spec.replica_map.items() if number in there and there[number] != row}
    for number, row in moved.items():
        useless = next((spu for spu in row if is_unwanted(spu, local, observed)), None)
        if useless is not None:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"replicaMap: partition {number} cannot move to SPU {useless}, which leaves or has been offline for "
                f"too long; start it, or remove the row to leave the partition on {list(there[number])}",
            )
    return moved


def _rows_with_factor(
    rows: ReplicaMap, topic: Topic, spec: TopicSpec, local: LocalStore, observed: Observed
) -> Mapping[int, Row]:
    """Returns rows with more or fewer replicas for the partitions that do not have as many as the spec wants."""
    if all(len(row) == spec.replication_factor for row in rows.values()):
        return {}
    try:
        quorum_sizes(policy_of(spec.configs), spec.replication_factor)
    except ValueError as error:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, str(error)) from error
    load = Load()
    for each in local.topics.values():
        if each.id != topic.id:
            load.add(each.status.replica_map.values())
    changed = with_factor(rows, spec.replication_factor, _places(spec, local, observed), load)
    if isinstance(changed, InsufficientResources):
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, changed.reason)
    return changed


def _places(spec: TopicSpec, local: LocalStore, observed: Observed) -> Places:
    accepting = accepting_spus(local, observed)
    if len(accepting) < spec.replication_factor:
        accepting = staying_spus(local)
    return Places(
        {spu.spec.id: None if spec.ignores_racks else spu.spec.rack for spu in local.spus.values()},
        frozenset(spu.spec.id for spu in accepting),
        frozenset(spu.spec.id for spu in local.spus.values() if spu.is_online),
    )
