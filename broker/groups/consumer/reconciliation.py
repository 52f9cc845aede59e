"""Reconciles the current assignment of a member with its target (KIP-848).

A member revokes before it is assigned. It keeps its epoch until it has reported that it revoked all partitions that are
not in its target. It then gets those partitions of its target that no other member has any more. Two members therefore
never have the same partition.
"""

from collections.abc import Callable, Set

from msgspec.structs import replace

from tailrace.broker.groups.assignment.assignments import Partitions, TopicPartition
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import TopicId

from .consumer_member import CurrentAssignment, MemberState


def reconcile(
    current: CurrentAssignment,
    *,
    target: Partitions,
    target_epoch: int,
    owned: Partitions | None,
    is_free: Callable[[TopicPartition], bool],
    subscribed: Callable[[], Set[TopicId]],
) -> CurrentAssignment:
    """Returns the new current assignment of the member.

    `owned` are the partitions that the member reports, or None if it reports none. `is_free` returns whether no other
    member has a partition or has still to revoke it. `subscribed` looks up the topics of the member, which is rarely
    needed.
    """
    match current.state:
        case MemberState.UNREVOKED_PARTITIONS if _may_own(owned, current.revoking.keys()):
            # The revocation goes on, and now includes the topics that the member does not subscribe to any more.
            topics = subscribed()
            left = {each: since for each, since in current.assigned.items() if each.topic_id not in topics}
            kept = {each: since for each, since in current.assigned.items() if each not in left}
            return replace(current, assigned=kept, revoking={**current.revoking, **left})
        case MemberState.UNKNOWN if owned is None or owned:
            raise KafkaError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "the state of the member is unknown: the member has to join again",
            )
    kept = {partition: since for partition, since in current.assigned.items() if partition in target}
    revoking = {partition: since for partition, since in current.assigned.items() if partition not in target}
    if revoking and _may_own(owned, revoking.keys()):
        return CurrentAssignment(
            current.epoch, current.previous_epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking
        )
    missing = target - kept.keys()
    added = {partition: target_epoch for partition in missing if is_free(partition)}
    return CurrentAssignment(
        target_epoch,
        current.epoch if current.epoch != target_epoch else current.previous_epoch,
        MemberState.STABLE if len(added) == len(missing) else MemberState.UNRELEASED_PARTITIONS,
        kept | added,
    )


def _may_own(owned: Partitions | None, partitions: Set[TopicPartition]) -> bool:
    """Returns whether the member may own one of the partitions. A member that reports nothing may own all of them."""
    return owned is None or not owned.isdisjoint(partitions)
