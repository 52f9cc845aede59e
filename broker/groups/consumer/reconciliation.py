"""How a member comes from what it has to what it shall have, one heartbeat after the other.

A member gives up before it gets: it keeps its epoch until it has said that it gave up all that the target does not give
it, and gets from the target only what nobody else has any more. So at no time do two members have a partition.
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
    """What the member has from now on.

    `owned` is what it says that it has, None when it does not say. `is_free` tells whether no other member has a
    partition, or has still to give it up. `subscribed` looks up the topics that it wants, which is rarely needed.
    """
    match current.state:
        case MemberState.UNREVOKED_PARTITIONS if _may_own(owned, current.revoking.keys()):
            # What it has is not what it shall have, and yet nothing of a topic that it does not want any more.
            topics = subscribed()
            left = {each: since for each, since in current.assigned.items() if each.topic_id not in topics}
            kept = {each: since for each, since in current.assigned.items() if each not in left}
            return replace(current, assigned=kept, revoking={**current.revoking, **left})
        case MemberState.UNKNOWN if owned is None or owned:
            raise KafkaError(
                ErrorCode.FENCED_MEMBER_EPOCH, "nobody here knows the state of the member: it has to join again"
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
    """A member that does not say what it has may have all of it."""
    return owned is None or not owned.isdisjoint(partitions)
