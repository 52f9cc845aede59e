from uuid import UUID

import pytest

from tailrace.cli.objects.unfinished_topics import waiting_topics
from tailrace.controller.objects.objects import Topic, TopicResolution, TopicSpec, TopicStatus
from tailrace.protocol.ids import SpuId

ROW = (SpuId(1),)


def topic(resolution: TopicResolution, reason: str, partitions: int = 1) -> Topic:
    rows = {0: ROW} if resolution is TopicResolution.PROVISIONED else {}
    return Topic("orders", UUID(int=7), TopicSpec(partitions, 3), TopicStatus(resolution, rows, reason))


def test_a_topic_with_all_its_replicas_waits_for_nothing() -> None:
    assert waiting_topics([topic(TopicResolution.PROVISIONED, "")]) == []


@pytest.mark.parametrize(
    ("waiting", "parts"),
    [
        (topic(TopicResolution.INSUFFICIENT_RESOURCES, "too few"), ("no client can use it yet: too few.", "--spus 3")),
        (topic(TopicResolution.INVALID_CONFIG, "no SPU 9"), ("no client can use it yet: no SPU 9.", "topic alter")),
        (topic(TopicResolution.PROVISIONED, "too few", 2), ("has 1 partitions, and waits for more: too few.",)),
        (topic(TopicResolution.NONE, ""), ("not decided about it yet",)),
    ],
)
def test_each_state_says_what_is_missing_and_what_to_do(waiting: Topic, parts: tuple[str, ...]) -> None:
    (sentence,) = waiting_topics([waiting])
    assert all(part in sentence for part in parts)
