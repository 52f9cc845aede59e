from uuid import UUID

from tailrace.cli.objects.topic_tables import creation_text, description
from tailrace.controller.objects.objects import Topic, TopicResolution, TopicSpec, TopicStatus
from tailrace.protocol.ids import SpuId

ROW, OTHER_ROW = (SpuId(1), SpuId(2)), (SpuId(1), SpuId(3))


def test_a_description_says_where_replicas_are_and_where_they_are_wanted() -> None:
    status = TopicStatus(TopicResolution.PROVISIONED, {0: ROW, 1: OTHER_ROW})
    described = description(Topic("orders", UUID(int=7), TopicSpec(2, 2, {0: ROW, 1: ROW}), status))
    assert described.endswith("Replicas:\n  - 0: [1, 2]\n  - 1: [1, 3] (wanted: [1, 2])")


def test_a_new_topic_says_its_status_unless_it_is_the_usual_one() -> None:
    waiting = Topic("orders", UUID(int=7), TopicSpec())
    assert creation_text(waiting) == "created topic orders; its status is new"
    ready = Topic("orders", UUID(int=7), TopicSpec(), TopicStatus(TopicResolution.PROVISIONED, {0: ROW}))
    assert creation_text(ready) == "created topic orders"
