import pytest

from tailrace.cli.health.cluster_facts import (
    ClusterFacts,
    GroupFacts,
    PartitionFacts,
    SpuFacts,
    TopicFacts,
    TriggerSummary,
)
from tailrace.cli.health.cluster_summary import faults_of, overview
from tailrace.runtime.network import Address

ONE, TWO = SpuFacts(1, "Online", (Address("one", 9005),)), SpuFacts(2, "Online", (Address("two", 9005),))
TOPICS = (TopicFacts("orders", False), TopicFacts("__consumer_offsets", True))
WHOLE = PartitionFacts("orders", 0, 1, (1, 2), (1, 2))


def facts(
    *partitions: PartitionFacts,
    spus: tuple[SpuFacts, ...] = (ONE, TWO),
    topics: tuple[TopicFacts, ...] = TOPICS,
    groups: tuple[GroupFacts, ...] = (),
    triggers: tuple[TriggerSummary, ...] = (),
) -> ClusterFacts:
    return ClusterFacts(spus, topics, partitions, groups, triggers)


def test_nothing_is_wrong_with_a_whole_cluster() -> None:
    assert faults_of(facts(WHOLE)) == []
    assert overview(facts(WHOLE)) == [
        ("SPUs", "2 of 2 online"),
        ("Clients connect to", "one:9005 and two:9005"),
        ("Topics", "1 topic, and 1 internal"),
        ("Partitions", "1: 1 with a leader, 1 with all replicas live"),
    ]
    assert overview(facts(spus=(), topics=())) == [
        ("SPUs", "none"),
        ("Clients connect to", ""),
        ("Topics", "0 topics"),
        ("Partitions", "none"),
    ]


@pytest.mark.parametrize(
    ("spu", "text", "next_step"),
    [
        (SpuFacts(2, "Init"), "SPU 2 is registered and has never connected.", "`tailrace serve spu --id 2 …`"),
        (SpuFacts(2, "Offline", reason="it stopped"), "SPU 2 is offline: it stopped.", "`tailrace serve spu --id 2 …`"),
        (SpuFacts(2, "Offline", group="main"), "SPU 2 is offline.", "The SPU group main starts it"),
        (SpuFacts(2, "Online", reason="its storage is full"), "SPU 2 has a problem: its storage is full.", "storage"),
    ],
)
def test_an_spu_with_a_problem_is_named_with_the_next_step(spu: SpuFacts, text: str, next_step: str) -> None:
    (fault,) = faults_of(facts(spus=(ONE, spu)))
    assert (fault.level, fault.text) == ("problem", text)
    assert next_step in fault.next_step


def test_a_cluster_without_spus_cannot_serve_clients() -> None:
    (fault,) = faults_of(facts(spus=(), topics=()))
    assert fault.text == "No SPU is registered, so clients have no broker to connect to."


@pytest.mark.parametrize(
    ("group", "level", "text"),
    [
        (
            GroupFacts("edge", True, "of the ids 1-2 one is taken"),
            "problem",
            "The SPU group edge is Invalid: of the ids",
        ),
        (GroupFacts("edge", False, "SPU 3 is leaving but holds 1 replica"), "warning", "The SPU group edge shrinks: "),
    ],
)
def test_groups_that_are_not_as_they_should_be(group: GroupFacts, level: str, text: str) -> None:
    (fault,) = faults_of(facts(groups=(group,)))
    assert fault.level == level
    assert fault.text.startswith(text)
    assert faults_of(facts(groups=(GroupFacts("edge", False, ""),))) == []


@pytest.mark.parametrize(
    ("state", "level"),
    [("Init", "warning"), ("Pending", "warning"), ("InsufficientResources", "problem"), ("InvalidConfig", "problem")],
)
def test_topics_that_cannot_be_used(state: str, level: str) -> None:
    (fault,) = faults_of(facts(topics=(TopicFacts("orders", False, state, "why"),)))
    assert (fault.level, fault.subject) == (level, "topic orders")


def test_partitions_without_a_leader_need_their_live_replicas_back() -> None:
    lost = PartitionFacts("orders", 1, None, (1, 2), (2,))
    away, partitions = faults_of(facts(WHOLE, lost, spus=(ONE, SpuFacts(2, "Offline"))))[:2]
    assert away.subject == "SPU 2"
    assert partitions.text == "1 partition has no leader, so clients can neither write nor read: orders/1."
    assert partitions.next_step.startswith("Start SPU 2: only live replicas may lead.")


def test_replicas_on_offline_spus_are_not_live_whatever_the_live_replica_set_says() -> None:
    (away, lacking) = faults_of(facts(WHOLE, spus=(ONE, SpuFacts(2, "Offline"))))
    assert (away.level, lacking.level) == ("problem", "warning")
    assert lacking.text == "1 partition lacks live replicas: orders/0."
    assert lacking.next_step.startswith("Start SPU 2, or ")
    behind = PartitionFacts("orders", 0, 1, (1, 2), (1,))
    (lacking,) = faults_of(facts(behind))
    assert lacking.next_step.startswith("The replicas catch up")


def test_partitions_that_refuse_producers_are_a_problem() -> None:
    strict = (TopicFacts("orders", False, min_insync=2),)
    partitions = [PartitionFacts("orders", number, 1, (1, 2), (1,)) for number in range(5)]
    (refusing,) = faults_of(facts(*partitions, topics=strict))
    assert refusing.level == "problem"
    assert refusing.text == (
        "5 partitions refuse producers with acks=all, because fewer replicas are live than min.insync.replicas: "
        "orders/0, orders/1, orders/2 and 2 more."
    )


@pytest.mark.parametrize(
    ("trigger", "found"),
    [
        (TriggerSummary("bill", "Running", "", 3, 3), []),
        (TriggerSummary("bill", "Paused", "", 0, 0), []),
        (TriggerSummary("bill", "Redeploying", "", 3, 2), []),
        (
            TriggerSummary("bill", "Waiting", "there is no topic orders", 0, 0),
            [("warning", "The trigger bill waits: there is no topic orders.")],
        ),
        (
            TriggerSummary("bill", "Running", "", 3, 2),
            [("warning", "The trigger bill has 2 of 3 replicas that handle records.")],
        ),
        (
            TriggerSummary("bill", "Running", "", 1, 0),
            [("problem", "The trigger bill has 0 of 1 replica that handle records.")],
        ),
        (
            TriggerSummary("bill", "Running", "", 1, 1, (3, 5)),
            [("problem", "The trigger bill has stopped at an event in shards 3 and 5.")],
        ),
    ],
)
def test_triggers_that_do_not_handle_their_records(trigger: TriggerSummary, found: list[tuple[str, str]]) -> None:
    assert [(each.level, each.text) for each in faults_of(facts(triggers=(trigger,)))] == found


def test_triggers_are_counted_if_there_are_some() -> None:
    some = (TriggerSummary("bill", "Running", "", 3, 2), TriggerSummary("ship", "Paused", "", 0, 0))
    assert overview(facts(triggers=some))[-1] == ("Triggers", "2, with 2 of 3 replicas ready; 1 paused")
    assert overview(facts(triggers=some[:1]))[-1] == ("Triggers", "1, with 2 of 3 replicas ready")
