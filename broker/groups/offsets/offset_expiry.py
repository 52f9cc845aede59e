"""Decides when committed offsets expire: a retention time after their group last used them.

The rule is Kafka's, with one difference. In an empty group the time counts from the commit or from the moment at which
the last member left, whichever is later. Otherwise an offset that an administrator sets in a group that has been empty
for long would expire at once.
"""

from tailrace.broker.groups.common.group import Group, GroupKind
from tailrace.protocol.embedded_protocol import CONSUMER_PROTOCOL_TYPE

from .committed_offsets import NOT_GIVEN, CommittedOffset

STABLE = "Stable"


class ExpiryRule:
    """The expiry rule of one group in its current state."""

    def __init__(self, group: Group, retention_ms: int) -> None:
        self._group = group
        self._retention_ms = retention_ms
        self._empty_since_ms = (group.empty_since_ms or 0) if group.protocol_type else 0
        self._has_known_topics = (
            group.kind is GroupKind.CONSUMER
            or group.is_empty
            or (group.protocol_type == CONSUMER_PROTOCOL_TYPE and group.state == STABLE)
        )
        """Whether it is known which topics the group reads.

        It is unknown during a rebalance, and for other protocol types.
        """

    def keeps(self, topic: str) -> bool:
        """Returns whether all offsets of the topic are kept, regardless of their age."""
        return not self._has_known_topics or is_subscribed(self._group, topic)

    def is_expired(self, committed: CommittedOffset, now_ms: int) -> bool:
        """Returns whether the offset has expired. Ask for topics that `keeps` does not keep."""
        if committed.expires_ms != NOT_GIVEN:
            return now_ms >= committed.expires_ms
        return now_ms - max(committed.committed_ms, self._empty_since_ms) >= self._retention_ms


def is_subscribed(group: Group, topic: str) -> bool:
    """Returns whether the group reads the topic. Consumers with unknown subscriptions are assumed to read it."""
    if group.is_empty:
        return False
    topics = group.subscribed_topics()
    return group.protocol_type == CONSUMER_PROTOCOL_TYPE if topics is None else topic in topics
