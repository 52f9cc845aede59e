from assigning import TOPICS, partitions

from tailrace.broker.groups.assignment.assignments import by_topic, listed, partitions_of
from tailrace.protocol.messages.consumer_group_heartbeat import TopicPartitions


def test_equal_sets_are_listed_equally() -> None:
    assert by_topic(partitions("b3", "a10", "a9")) == {TOPICS["a"]: [9, 10], TOPICS["b"]: [3]}
    assert list(by_topic(partitions("b0", "a0"))) == [TOPICS["a"], TOPICS["b"]]


def test_there_and_back() -> None:
    some = partitions("a0", "a2", "b1")
    messages = listed(some, TopicPartitions)
    assert messages == [TopicPartitions(TOPICS["a"], [0, 2]), TopicPartitions(TOPICS["b"], [1])]
    assert partitions_of(messages) == some
