"""Upgrades a classic group to a consumer group and downgrades it again.

The members go on working meanwhile. The first member that sends ConsumerGroupHeartbeat upgrades the group. The other
members go on with the classic protocol, and the coordinator makes their assignment too. When the last member that uses
the consumer protocol has left, the group becomes a classic group again. Both keep the epoch, or the generation, of the
members.
"""

from tailrace.broker.groups.assignment.assignments import Partitions, TopicPartition
from tailrace.broker.groups.classic.classic_group import ClassicGroup
from tailrace.broker.groups.classic.classic_member import ClassicMember
from tailrace.broker.groups.classic.named_partitions import partitions_from_names, write_assignment
from tailrace.broker.groups.common.coordinator_records import GroupRecord
from tailrace.broker.groups.common.group_settings import GroupSettings
from tailrace.cluster.cluster import Cluster
from tailrace.protocol.embedded_protocol import CONSUMER_PROTOCOL_TYPE, read_assignment, read_subscription
from tailrace.protocol.error_codes import ErrorCode, KafkaError, RemoteProtocolError
from tailrace.protocol.group_records.group_metadata import GroupMetadataValue, MemberMetadata

from .consumer_group import ConsumerGroup
from .consumer_member import ClassicProtocols, ConsumerMember, CurrentAssignment, Profile
from .consumer_records import current_record, epoch_record, profile_record, target_epoch_record, target_record

_LONG_AGO_MS = 0
"""The time of the first target assignment, which lies so far back that the next one need not wait."""


def upgrade(
    classic: ClassicGroup,
    group: ConsumerGroup,
    settings: GroupSettings,
    cluster: Cluster,
) -> list[GroupRecord]:
    """Turns `group` into the state of `classic`, and returns the records for it.

    Raises KafkaError if members would lose something, or are not consumers.
    """
    if settings.consumer_migration_policy not in ("bidirectional", "upgrade"):
        raise _refused(classic, "group.consumer.migration.policy does not allow an upgrade")
    if classic.protocol_type != CONSUMER_PROTOCOL_TYPE:
        raise _refused(classic, f"its protocol type is {classic.protocol_type!r}")
    if len(classic.members) > settings.consumer_members_max:
        raise _refused(classic, "it has more members than group.consumer.max.size allows")
    records = []
    given: set[TopicPartition] = set()
    try:
        for member in classic.members:
            profile = _profile_of(member, classic.protocol_name)
            # If the leader assigned a partition to two members, only the first one keeps it.
            partitions = _assigned_to(member, cluster) - given
            given |= partitions
            current = CurrentAssignment(
                classic.generation, classic.generation, assigned=dict.fromkeys(partitions, classic.generation)
            )
            records += [
                profile_record(group.group_id, member.member_id, profile),
                target_record(group.group_id, member.member_id, partitions),
                current_record(group.group_id, member.member_id, current),
            ]
    except RemoteProtocolError as error:
        raise _refused(classic, f"the subscription or assignment of a member cannot be decoded: {error}") from None
    records.insert(0, epoch_record(group.group_id, classic.generation, 0))
    records.append(target_epoch_record(group.group_id, classic.generation, _LONG_AGO_MS))
    for record in records:
        group.apply(record)
    return records


def may_downgrade(group: ConsumerGroup, settings: GroupSettings) -> bool:
    """Returns whether there are members, all of them use the classic protocol, and the settings allow the downgrade."""
    return (
        0 < len(group.members) == group.classic_members <= settings.members_max
        and settings.consumer_migration_policy in ("bidirectional", "downgrade")
        and bool(_protocols_of_all(group))
    )


def downgrade(group: ConsumerGroup, cluster: Cluster, now_ms: int) -> GroupMetadataValue:
    """Returns the classic group of the same members, which lasts until they have joined again.

    Each member is stored with its current assignment, not with its target: if the group is upgraded again before they
    have joined, no other member may get a partition that a member still has. The generation is the largest member
    epoch, so that members may commit until they join. There is no leader, which makes all members join again, also with
    a new coordinator.
    """
    protocol = _protocols_of_all(group)[0]
    members = list(group.members.values())
    return GroupMetadataValue(
        CONSUMER_PROTOCOL_TYPE,
        max(member.current.epoch for member in members),
        protocol,
        None,
        now_ms,
        [_stored(member, protocol, cluster) for member in members],
    )


def _profile_of(member: ClassicMember, protocol: str | None) -> Profile:
    subscriptions = {name: read_subscription(metadata) for name, metadata in member.protocols.items()}
    subscription = subscriptions.get(protocol or "") or next(iter(subscriptions.values()))
    return Profile(
        member.participant.client_id,
        member.participant.host,
        member.instance_id,
        subscription.rack_id,
        subscription.topics,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicProtocols(member.session_timeout_ms, tuple(member.protocols.items())),
    )


def _assigned_to(member: ClassicMember, cluster: Cluster) -> Partitions:
    assignment = read_assignment(member.assignment)
    if assignment.user_data:
        raise RemoteProtocolError("its assignment has user data of the assignor, which would be lost")
    return partitions_from_names(assignment.assigned_partitions, cluster)


def _protocols_of_all(group: ConsumerGroup) -> list[str]:
    """Returns the protocols that all classic members support, in the order of preference of one of them."""
    for member in group.members.values():
        if member.profile.classic is not None:
            names = [name for name, _ in member.profile.classic.protocols]
            return [name for name in names if group.protocols_supported[name] == group.classic_members]
    return []


def _stored(member: ConsumerMember, protocol: str, cluster: Cluster) -> MemberMetadata:
    profile, current = member.profile, member.current
    assert profile.classic is not None
    metadata = dict(profile.classic.protocols)[protocol]
    return MemberMetadata(
        member.member_id,
        profile.instance_id,
        profile.client_id,
        profile.host,
        profile.rebalance_timeout_ms,
        profile.classic.session_timeout_ms,
        metadata,
        write_assignment(frozenset((*current.assigned, *current.revoking)), metadata, cluster),
    )


def _refused(classic: ClassicGroup, why: str) -> KafkaError:
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"the group {classic.group_id} is no consumer group, and {why}")
