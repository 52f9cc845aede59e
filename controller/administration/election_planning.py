"""Plans elections that a person requests: returns the writes, or the error for the client."""

from collections.abc import Sequence

from msgspec.structs import replace

from tailrace.cluster.specs import NO_LEADER
from tailrace.controller.objects.objects import Partition
from tailrace.controller.partitions.election import elected_cleanly, elected_uncleanly, is_sure, reported_log_ends
from tailrace.controller.state.actions import Put
from tailrace.controller.state.local_store import LocalStore
from tailrace.controller.state.observed import Observed, PartitionReports
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import Epoch
from tailrace.server.administration import PartitionName

from .planned_changes import Planned, Plans

Elected = tuple[Partition, Epoch]
"""The partition before the election, and the epoch of the elected leader."""


def plan_elections(
    asked: Sequence[PartitionName], local: LocalStore, observed: Observed, *, unclean: bool
) -> Plans[Elected]:
    """Plans elections of the preferred replicas, or unclean elections for partitions without a leader."""
    plans: Plans[Elected] = []
    for name in asked:
        try:
            partition = _find_existing(name, local)
            reports = observed.reports_of((partition.topic_id, partition.number))
            elect = _elected_uncleanly if unclean else _with_preferred_leader
            elected = elect(partition, local, reports)
            plans.append(Planned((partition, elected.status.epoch), (Put(elected),)))
        except KafkaError as error:
            plans.append(error)
    return plans


def _find_existing(name: PartitionName, local: LocalStore) -> Partition:
    topic = local.topics.get(name.topic)
    partition = None if topic is None else local.partitions.get((topic.id, name.partition))
    if partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name.partition} of that topic")
    return partition


def _with_preferred_leader(partition: Partition, local: LocalStore, reports: PartitionReports) -> Partition:
    """Elects the preferred replica, which must have everything that was committed. Raises KafkaError."""
    preferred, status = partition.spec.initial_leader, partition.status
    if status.leads == preferred:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, f"SPU {preferred} already leads")
    if not is_sure(preferred, status.live_replicas, local.spus):
        raise KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"SPU {preferred} is not a live replica now")
    if reports.has_failed(local.spus[preferred]):
        raise KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"the storage of SPU {preferred} has failed")
    return replace(partition, status=elected_cleanly(partition, preferred, local.spus))


def _elected_uncleanly(partition: Partition, local: LocalStore, reports: PartitionReports) -> Partition:
    """Elects the first replica that is online, sure ones and live ones first. Raises KafkaError.

    A replica that is not live lacks what was committed since it left the live set.
    """
    spus, status = local.spus, partition.status
    if status.leads != NO_LEADER:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, f"SPU {status.leads} leads")
    online = [spu for spu in partition.spec.replicas if spu in spus and spus[spu].is_online]
    able = [spu for spu in online if not reports.has_failed(spus[spu])]
    if not able:
        reason = "the storage of those that are online has failed" if online else "none of its replicas is online"
        raise KafkaError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, reason)
    end = partition.spec.shelved_end
    if end:
        log_ends = reported_log_ends(partition, able, spus, reports)
        able = [spu for spu in able if is_sure(spu, status.live_replicas, spus) or (log_ends.get(spu) or 0) >= end]
    if not able:
        raise KafkaError(
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            f"its shelves end at {end}, and no replica that is online is known to have a log up to there; with "
            "unclean.leader.election.enable the replicas are asked for their log ends",
        )
    leader = min(able, key=lambda spu: (not is_sure(spu, status.live_replicas, spus), spu not in status.live_replicas))
    if is_sure(leader, status.live_replicas, spus):
        return replace(partition, status=elected_cleanly(partition, leader, spus))
    return replace(partition, status=elected_uncleanly(partition, leader, spus))
