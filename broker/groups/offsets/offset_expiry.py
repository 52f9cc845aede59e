"""When committed offsets are forgotten: so long after their group last had a use for them.

As in Kafka, with one difference: in a group that lost its members the time counts from the later one of two moments,
the last member's leaving and the commit. Otherwise what an administrator sets in a group that has been empty for long
would be gone within the hour.
"""

from tailrace.broker.groups.common.group import Group, GroupKind

from .committed_offsets import NOT_SAID, CommittedOffset

CONSUMER_PROTOCOL = "consumer"
STABLE = "Stable"


class ExpiryRule:
    """How it is for one group now."""

    def __init__(self, group: Group, retention_ms: int) -> None:
        self._group = group
        self._retention_ms = retention_ms
        self._empty_since_ms = (group.empty_since_ms or 0) if group.protocol_type else 0
        self._is_settled = (
            group.kind is GroupKind.CONSUMER
            or group.is_empty
            or (group.protocol_type == CONSUMER_PROTOCOL and group.state == STABLE)
        )
        """Otherwise it is not known what the group is going to read, or it is none of consumers."""

    def keeps(self, topic: str) -> bool:
        """Whether all offsets of the topic are kept, however old."""
        return not self._is_settled or is_subscribed(self._group, topic)

    def is_expired(self, committed: CommittedOffset, now_ms: int) -> bool:
        """For offsets of a topic that is not kept anyway."""
        if committed.expires_ms != NOT_SAID:
            return now_ms >= committed.expires_ms
        return now_ms - max(committed.committed_ms, self._empty_since_ms) >= self._retention_ms


def is_subscribed(group: Group, topic: str) -> bool:
    """Of consumers whose subscriptions cannot be read it is assumed."""
    if group.is_empty:
        return False
    topics = group.subscribed_topics()
    return group.protocol_type == CONSUMER_PROTOCOL if topics is None else topic in topics
