import pytest
from msgspec import Struct

from tailrace.broker.groups.common.group import GroupKind
from tailrace.broker.groups.offsets.committed_offsets import CommittedOffset
from tailrace.broker.groups.offsets.offset_expiry import ExpiryRule, is_subscribed

DAY_MS = 24 * 3600 * 1000
RETENTION_MS = 7 * DAY_MS
NOW_MS = 1000 * DAY_MS
LONG_AGO_MS = NOW_MS - 30 * DAY_MS


class Looks(Struct):
    """The fields of a group that the rule uses."""

    kind: GroupKind = GroupKind.CLASSIC
    protocol_type: str = "consumer"
    state: str = "Empty"
    empty_since_ms: int | None = None
    topics: frozenset[str] | None = frozenset()

    @property
    def is_empty(self) -> bool:
        return self.state == "Empty"

    def subscribed_topics(self) -> frozenset[str] | None:
        return self.topics


def expires(group: Looks, *, topic: str = "orders", days: float = 8, expires_ms: int = -1) -> bool:
    """Returns whether an offset expires that was committed this number of days ago."""
    rule = ExpiryRule(group, RETENTION_MS)  # type: ignore[arg-type] # the rule uses nothing else
    committed = CommittedOffset(5, committed_ms=NOW_MS - round(days * DAY_MS), expires_ms=expires_ms)
    return not rule.keeps(topic) and rule.is_expired(committed, NOW_MS)


def test_a_group_of_offsets_only_keeps_each_for_its_own_time() -> None:
    group = Looks(protocol_type="", topics=None, empty_since_ms=NOW_MS)
    assert expires(group, days=7) and not expires(group, days=6.9)


@pytest.mark.parametrize("kind", GroupKind)
def test_a_group_that_lost_its_members_keeps_all_from_then_on(kind: GroupKind) -> None:
    assert not expires(Looks(kind, empty_since_ms=NOW_MS - 6 * DAY_MS), days=30)
    assert expires(Looks(kind, empty_since_ms=NOW_MS - 7 * DAY_MS), days=30)
    assert expires(Looks(kind, empty_since_ms=None), days=30), "since when is not known"


def test_what_is_committed_to_an_empty_group_is_kept_as_long_as_anything() -> None:
    group = Looks(empty_since_ms=LONG_AGO_MS)
    assert not expires(group, days=1) and expires(group, days=7)


@pytest.mark.parametrize("kind", GroupKind)
def test_members_keep_what_they_read(kind: GroupKind) -> None:
    group = Looks(kind, state="Stable", topics=frozenset({"orders"}))
    assert not expires(group, days=100)
    assert expires(group, topic="payments", days=7) and not expires(group, topic="payments", days=6.9)


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance"])
def test_nothing_goes_while_it_is_not_settled_what_members_read(state: str) -> None:
    assert not expires(Looks(state=state, topics=frozenset({"orders"})), topic="payments", days=100)


def test_nothing_goes_while_it_is_not_known_what_members_read() -> None:
    assert not expires(Looks(state="Stable", topics=None), days=100)
    assert not expires(Looks(state="Stable", protocol_type="connect", topics=None), days=100)


def test_a_consumer_group_reads_its_subscribed_topics_in_any_state() -> None:
    group = Looks(GroupKind.CONSUMER, state="Reconciling", topics=frozenset({"orders"}))
    assert not expires(group, days=100) and expires(group, topic="payments", days=100)


def test_an_offset_may_say_itself_when_it_expires() -> None:
    empty = Looks(empty_since_ms=NOW_MS)
    assert expires(empty, days=0, expires_ms=NOW_MS) and not expires(empty, days=100, expires_ms=NOW_MS + 1)
    reading = Looks(state="Stable", topics=frozenset({"orders"}))
    assert not expires(reading, days=0, expires_ms=NOW_MS), "not while somebody reads the topic"


def test_subscriptions() -> None:
    def subscribed(group: Looks) -> bool:
        return is_subscribed(group, "orders")  # type: ignore[arg-type] # the rule uses nothing else

    assert subscribed(Looks(state="Stable", topics=frozenset({"orders"})))
    assert not subscribed(Looks(state="Stable", topics=frozenset({"payments"})))
    assert subscribed(Looks(state="Stable", topics=None)), "consumers whose subscription cannot be read"
    assert not subscribed(Looks(state="Stable", protocol_type="connect", topics=None))
    assert not subscribed(Looks(topics=None)), "nobody is there"
