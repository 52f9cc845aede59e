import sys
from subprocess import run

import pytest
from grouping import GroupWorld

from tailrace.broker.groups.assignment import subscriptions
from tailrace.broker.groups.assignment.subscriptions import TopicPatterns, existing, fingerprint
from tailrace.protocol.error_codes import ErrorCode, KafkaError


@pytest.fixture
def world() -> GroupWorld:
    world = GroupWorld()
    for name in ("orders", "orders-eu", "logs", "__consumer_offsets"):
        world.put_topic(name, 1)
    return world


def test_a_pattern_means_topics_whose_whole_name_matches(world: GroupWorld) -> None:
    patterns = TopicPatterns(world.cluster)
    assert patterns.matches("orders") == {"orders"}
    assert patterns.matches("orders.*") == {"orders", "orders-eu"}
    assert patterns.matches("l.*|__.*") == {"logs", "__consumer_offsets"}
    assert patterns.matches("") == frozenset()


def test_a_pattern_follows_the_topics(world: GroupWorld) -> None:
    patterns = TopicPatterns(world.cluster)
    assert patterns.matches("orders.+") == {"orders-eu"}
    world.put_topic("orders-us", 1)
    world.cluster.remove_topic(world.cluster.topics["orders-eu"].id)
    assert patterns.matches("orders.+") == {"orders-us"}


@pytest.mark.parametrize("pattern", ["t(", "t(?=a)", r"(a)\1", "*", "x{1000}" * 200])
def test_what_re2_does_not_take_is_refused(world: GroupWorld, pattern: str) -> None:
    patterns = TopicPatterns(world.cluster)
    for use in (patterns.check, patterns.matches):
        with pytest.raises(KafkaError, match="is not a valid regular expression") as refused:
            use(pattern)
        assert refused.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION
    patterns.check("t.*")


def test_clients_cannot_fill_the_memory_with_patterns(world: GroupWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "PATTERNS_MAX", 3)
    patterns = TopicPatterns(world.cluster)
    for number in range(10):
        assert patterns.matches(f"orders|x{number}") == {"orders"}
        assert len(patterns._patterns) <= 3


def test_a_fingerprint_tells_whether_topics_are_the_same(world: GroupWorld) -> None:
    topics = world.cluster.topics
    before = fingerprint([topics["orders"], topics["logs"]])
    assert -(2**63) <= before < 2**63
    assert fingerprint([topics["logs"], topics["orders"]]) == before
    assert fingerprint([topics["orders"]]) != before
    assert fingerprint([]) == 0
    world.put_topic("orders", 2)
    assert fingerprint([topics["orders"], topics["logs"]]) != before
    world.put_topic("orders", 1)
    assert fingerprint([topics["orders"], topics["logs"]]) == before
    world.put_topic("orders", 1, topic_id=77)
    assert fingerprint([topics["orders"], topics["logs"]]) != before


def test_topics_that_are_not_there_are_left_out(world: GroupWorld) -> None:
    assert [topic.name for topic in existing(["logs", "nothing"], world.cluster.topics)] == ["logs"]


def test_the_library_is_loaded_with_the_first_pattern() -> None:
    program = (
        "import sys, tailrace.broker.groups.assignment.subscriptions as s, tailrace.cluster.cluster as c\n"
        "assert 're2' not in sys.modules\n"
        "s.TopicPatterns(c.Cluster()).matches('a')\n"
        "assert 're2' in sys.modules"
    )
    run([sys.executable, "-c", program], check=True)
