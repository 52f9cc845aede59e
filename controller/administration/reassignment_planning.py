"""Plans reassignments of partitions: returns other rows for topics, or the error for the client.

The rows of a topic are in one object, so all reassignments of one topic are planned together.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tailrace.cluster.replica_assignment import fault_of_rows
from tailrace.cluster.replication_policy import policy_of, quorum_sizes
from tailrace.controller.objects.objects import Partition, Topic
from tailrace.controller.partitions.copy_sets import before_change, coming_and_going, is_changing, wanted_row
from tailrace.controller.state.actions import Put
from tailrace.controller.state.local_store import LocalStore
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import SpuId
from tailrace.server.administration import OngoingReassignment, Reassignment

from .change_planning import check_topic_size
from .planned_changes import Planned, Plans

Outcomes = Mapping[int, KafkaError | None]
"""For each partition, the reason why its row stays unchanged, or None if it changes."""


class TopicReassignments(Struct, frozen=True):
    """All reassignments that a request wants for one topic."""

    topic: str
    wanted: Sequence[Reassignment]


def group_by_topic(wanted: Iterable[Reassignment]) -> list[TopicReassignments]:
    """Collects the reassignments of each topic."""
    gathered: dict[str, list[Reassignment]] = {}
    for each in wanted:
        gathered.setdefault(each.topic, []).append(each)
    return [TopicReassignments(topic, its) for topic, its in gathered.items()]


def plan_reassignments(
    topics: Sequence[TopicReassignments], local: LocalStore, *, other_factor_allowed: bool
) -> Plans[Outcomes]:
    """Plans the reassignments of each topic."""
    return [_plan_topic(each, local, other_factor_allowed) for each in topics]


def ongoing_reassignments(local: LocalStore) -> list[OngoingReassignment]:
    """Returns the partitions whose replicas are being changed, each with its final replicas before those that leave."""
    found = []
    for topic in local.topics.values():
        for number, wanted in topic.status.replica_map.items():
            partition = local.partitions.get((topic.id, number))
            if partition is not None and is_changing(partition, wanted):
                adding, removing = coming_and_going(partition, wanted)
                found.append(OngoingReassignment(topic.name, number, (*wanted, *removing), adding, removing))
    return found


def _plan_topic(asked: TopicReassignments, local: LocalStore, other_factor_allowed: bool) -> Planned[Outcomes]:
    topic = local.topics.get(asked.topic)
    rows = {} if topic is None else dict(topic.status.replica_map)
    outcomes: dict[int, KafkaError | None] = {}
    for each in asked.wanted:
        try:
            rows[each.partition] = _row(each, topic, local, other_factor_allowed)
            outcomes[each.partition] = None
        except KafkaError as error:
            outcomes[each.partition] = error
    if topic is None or rows == topic.status.replica_map:
        return Planned(outcomes, ())
    chosen = {number: rows.get(number, row) for number, row in topic.spec.replica_map.items()}
    factors = {len(row) for row in rows.values()}
    factor = factors.pop() if len(factors) == 1 else topic.spec.replication_factor
    spec = replace(topic.spec, replica_map=chosen, replication_factor=factor)
    changed = replace(topic, spec=spec, status=replace(topic.status, replica_map=rows))
    return Planned(outcomes, (Put(changed),))


def _row(asked: Reassignment, topic: Topic | None, local: LocalStore, other_factor_allowed: bool) -> tuple[SpuId, ...]:
    partition = None if topic is None else local.partitions.get((topic.id, asked.partition))
    if topic is None or partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such partition")
    if asked.replicas is None:
        return _cancelled_row(partition, topic)
    fault = fault_of_rows({asked.partition: asked.replicas}, local.spus)
    if fault is not None:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, fault)
    factor = len(before_change(partition))
    if not other_factor_allowed and len(asked.replicas) != factor:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR, f"it has {factor} replicas, and the request must not change that"
        )
    try:
        quorum_sizes(policy_of(topic.spec.configs), len(asked.replicas))
    except ValueError as error:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, str(error)) from error
    check_topic_size(topic.name, len(topic.status.replica_map), len(asked.replicas))
    return asked.replicas


def _cancelled_row(partition: Partition, topic: Topic) -> tuple[SpuId, ...]:
    if not is_changing(partition, wanted_row(partition, topic)):
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "its replicas are not being changed")
    return before_change(partition)
