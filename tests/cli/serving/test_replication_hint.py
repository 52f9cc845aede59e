from uuid import UUID

from tailrace.cli.serving.replication_hint import replication_hint, sc_options
from tailrace.controller.objects.objects import Topic, TopicResolution, TopicSpec, TopicStatus
from tailrace.protocol.ids import SpuId
from tailrace.runtime.network import Address

COMMAND = "tailrace topic alter --all --replication-factor"


def topic(name: str, *row: int) -> Topic:
    status = TopicStatus(TopicResolution.PROVISIONED, {0: tuple(map(SpuId, row))})
    return Topic(name, UUID(int=7), TopicSpec(), status)


def test_topics_with_one_copy_are_noticed_when_there_are_more_spus() -> None:
    topics = [topic("orders", 1), topic("__consumer_offsets", 1), topic("safe", 1, 2, 3)]
    assert replication_hint(topics, 3, "") == (
        f"3 SPUs run, but 2 topics have fewer than 3 replicas, 1 of them internal. To copy them: {COMMAND} 3"
    )
    assert replication_hint([topic("orders", 1)], 2, " --sc h:1") == (
        f"2 SPUs run, but 1 topic has fewer than 2 replicas. To copy them: {COMMAND} 2 --sc h:1"
    )


def test_nothing_is_said_without_a_reason() -> None:
    assert replication_hint([topic("orders", 1)], 1, "") is None
    assert replication_hint([topic("orders", 1, 2, 3)], 5, "") is None
    waiting = Topic("wide", UUID(int=8), TopicSpec(1, 9), TopicStatus(TopicResolution.INSUFFICIENT_RESOURCES))
    assert replication_hint([waiting], 3, "") is None


def test_the_usual_address_of_the_sc_needs_no_option() -> None:
    usual = Address("127.0.0.1", 9003)
    assert sc_options(usual, usual) == ""
    assert sc_options(Address("127.0.0.1", 4), usual) == " --sc 127.0.0.1:4"
