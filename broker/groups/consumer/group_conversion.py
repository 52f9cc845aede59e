"""From a classic group to one of KIP-848 and back, while its members work on.

The first member that sends ConsumerGroupHeartbeat takes the whole group along: the others go on with the classic
protocol, and the coordinator assigns to them too. When the last such member has gone, the others are a classic group
again. Either way the group goes on at the epoch, or generation, that its members work at.
"""

from tailrace.broker.groups.assignment.assignments import Partitions, TopicPartition
from tailrace.broker.groups.classic.classic_group import ClassicGroup
from tailrace.broker.groups.classic.classic_member import ClassicMember
from tailrace.broker.groups.classic.embedded_protocol import (
    CONSUMER,
    partitions_named,
    read_assignment,
    read_subscription,
    write_assignment,
)
from tailrace.broker.groups.common.coordinator_records import GroupRecord
from tailrace.broker.groups.common.coordinator_settings import GroupSettings
from tailrace.cluster.cluster import Cluster
from tailrace.protocol.error_codes import ErrorCode, KafkaError, RemoteProtocolError
from tailrace.protocol.group_records.group_metadata import GroupMetadataValue, MemberMetadata

from .consumer_group import ConsumerGroup
from .consumer_member import ClassicProtocols, ConsumerMember, CurrentAssignment, Profile
from .consumer_records import current_record, epoch_record, profile_record, target_epoch_record, target_record

_LONG_AGO_MS = 0
"""The leader's assignment is not one of ours that another would have to wait for."""


def upgrade(
    classic: ClassicGroup,
    group: ConsumerGroup,
    settings: GroupSettings,
    cluster: Cluster,
) -> list[GroupRecord]:
    """Makes `group` what `classic` is, and returns the records that say so.

    Raises KafkaError when members would lose something by it, or are not consumers.
    """
    if settings.consumer_migration_policy not in ("bidirectional", "upgrade"):
        raise _refused(classic, "group.consumer.migration.policy does not let it become one")
    if classic.protocol_type != CONSUMER:
        raise _refused(classic, f"its members are of the type {classic.protocol_type!r}")
    if len(classic.members) > settings.consumer_members_max:
        raise _refused(classic, "it has more members than group.consumer.max.size allows")
    records = []
    given: set[TopicPartition] = set()
    try:
        for member in classic.members:
            profile = _profile_of(member, classic.protocol_name)
            # Should the leader have given a partition to two members, the second one has to do without.
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
        raise _refused(classic, f"what a member said cannot be read: {error}") from None
    records.insert(0, epoch_record(group.group_id, classic.generation, 0))
    records.append(target_epoch_record(group.group_id, classic.generation, _LONG_AGO_MS))
    for record in records:
        group.apply(record)
    return records


def may_downgrade(group: ConsumerGroup, settings: GroupSettings) -> bool:
    """Whether there are members, all of them speak the classic protocol, and may be a group of it."""
    return (
        0 < len(group.members) == group.classic_members <= settings.members_max
        and settings.consumer_migration_policy in ("bidirectional", "downgrade")
        and bool(_protocols_of_all(group))
    )


def downgrade(group: ConsumerGroup, cluster: Cluster, now_ms: int) -> GroupMetadataValue:
    """The classic group of the same members, until they have joined again with what they have now.

    Not with what they were to have: should the group become one of KIP-848 before that, nobody else may get what a
    member still has. The generation is the one that they work at, so that they may commit until they join; and nobody
    leads: all of them join again, also if another coordinator takes over before.
    """
    protocol = _protocols_of_all(group)[0]
    members = list(group.members.values())
    return GroupMetadataValue(
        CONSUMER,
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
        raise RemoteProtocolError("its assignor gave it data of its own, which would be lost")
    return partitions_named(assignment.assigned_partitions, cluster)


def _protocols_of_all(group: ConsumerGroup) -> list[str]:
    """Those that all members know, in the order in which one of them likes them."""
    for member in group.members.values():
        if member.profile.classic is not None:
            names = [name for name, _ in member.profile.classic.protocols]
            return [name for name in names if group.protocols_known[name] == group.classic_members]
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
