import pytest

from tailrace.cli.serving.first_topics import FirstTopic, first_topic, first_topics
from tailrace.runtime.settings import SettingsError


def test_numbers_may_be_left_to_the_defaults_of_the_cluster() -> None:
    assert first_topic("orders") == FirstTopic("orders", -1, -1)
    assert first_topic("orders:6") == FirstTopic("orders", 6, -1)
    assert first_topic("orders:6:3") == FirstTopic("orders", 6, 3)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("orders:six", "'six' is not a number of partitions from 1 to 10000"),
        ("orders:0", "'0' is not a number of partitions"),
        ("orders:6:0", "'0' is not a number of replicas from 1 to 1000"),
        ("orders:", "'' is not a number of partitions"),
        ("orders:1:1:1", "expected NAME, NAME:PARTITIONS or NAME:PARTITIONS:REPLICAS"),
        ("a b", "'a b' cannot name a topic"),
        (":6", "'' cannot name a topic"),
    ],
)
def test_what_is_no_topic_is_refused(text: str, reason: str) -> None:
    with pytest.raises(SettingsError) as refused:
        first_topic(text)
    assert str(refused.value).startswith(f"--topic {text}: ")
    assert reason in str(refused.value)


def test_a_topic_is_given_once() -> None:
    assert first_topics(["a", "b:2"]) == (FirstTopic("a"), FirstTopic("b", 2))
    with pytest.raises(SettingsError, match=r"^--topic a: the topic is given twice$"):
        first_topics(["a", "b", "a:2"])
