from uuid import UUID

from tailrace.cli.health.cluster_facts import (
    ClusterFacts,
    GroupFacts,
    PartitionFacts,
    SpuFacts,
    TopicFacts,
    TriggerSummary,
    facts_of_metadata,
    facts_of_objects,
)
from tailrace.controller.objects.objects import (
    Partition,
    PartitionResolution,
    PartitionSpec,
    PartitionStatus,
    PublicEndpoint,
    PublicListener,
    Spu,
    SpuGroup,
    SpuGroupResolution,
    SpuGroupSpec,
    SpuGroupStatus,
    SpuResolution,
    SpuSpec,
    SpuStatus,
    SpuType,
    Topic,
    TopicResolution,
    TopicSpec,
    TopicStatus,
)
from tailrace.protocol.ids import Epoch, SpuId
from tailrace.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tailrace.runtime.network import Address

ONE, TWO = SpuId(1), SpuId(2)
ID = UUID(int=1)


def test_the_facts_of_the_scs_objects() -> None:
    listeners = (PublicListener("PUBLIC", "one", 9005),)
    led = PartitionStatus(PartitionResolution.ONLINE, ONE, Epoch(3), live_replicas={ONE: "a", TWO: "b"})
    lost = PartitionStatus(PartitionResolution.OFFLINE, ONE, Epoch(3), live_replicas={ONE: "a"}, reason="why")
    spec = PartitionSpec(ONE, (ONE, TWO))
    facts = facts_of_objects(
        [
            Spu(
                SpuSpec(ONE, public=PublicEndpoint(ingress=("told",))),
                SpuStatus(SpuResolution.ONLINE, listeners=listeners),
            ),
            Spu(SpuSpec(TWO, SpuType.MANAGED, group="main"), SpuStatus(SpuResolution.OFFLINE, reason="it stopped")),
            SpuGroup("main", SpuGroupSpec(), SpuGroupStatus(SpuGroupResolution.INVALID, "taken")),
            Topic(
                "orders",
                ID,
                TopicSpec(configs={"min.insync.replicas": "2"}),
                TopicStatus(TopicResolution.PROVISIONED),
            ),
            Topic("__consumer_offsets", ID, TopicSpec(), TopicStatus()),
            Partition("orders", ID, 0, spec, led),
            Partition("orders", ID, 1, spec, lost),
        ]
    )
    assert facts == ClusterFacts(
        (SpuFacts(1, "Online", (Address("told", 9005),)), SpuFacts(2, "Offline", (), "it stopped", "main")),
        (TopicFacts("orders", False, "Provisioned", "", 2), TopicFacts("__consumer_offsets", True, "Init")),
        (
            PartitionFacts("orders", 0, 1, (1, 2), (1, 2)),
            PartitionFacts("orders", 1, None, (1, 2), (1,), "why"),
        ),
        (GroupFacts("main", True, "taken"),),
    )


def test_brokers_that_metadata_does_not_name_or_whose_replicas_are_offline_are_offline() -> None:
    metadata = MetadataResponse(
        brokers=[MetadataResponseBroker(1, "one", 9005), MetadataResponseBroker(3, "three", 9005)],
        topics=[
            MetadataResponseTopic(
                name="orders",
                partitions=[
                    MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=[1, 2], isr_nodes=[1]),
                    MetadataResponsePartition(partition_index=1, leader_id=-1, replica_nodes=[2], isr_nodes=[2]),
                    MetadataResponsePartition(
                        partition_index=2, leader_id=1, replica_nodes=[1, 3], isr_nodes=[1], offline_replicas=[3]
                    ),
                ],
            )
        ],
    )
    assert facts_of_metadata(metadata) == ClusterFacts(
        (SpuFacts(1, "Online", (Address("one", 9005),)), SpuFacts(2, "Offline"), SpuFacts(3, "Offline")),
        (TopicFacts("orders", False),),
        (
            PartitionFacts("orders", 0, 1, (1, 2), (1,)),
            PartitionFacts("orders", 1, None, (2,), (2,)),
            PartitionFacts("orders", 2, 1, (1, 3), (1,)),
        ),
    )


def test_a_trigger_is_ready_as_far_as_its_replicas_report() -> None:
    def replica(age_ms: int, state: str, *shards: dict[str, object], **more: object) -> dict[str, object]:
        return {"revision": 1, "reportAgeMs": age_ms, "report": {"state": state, "shards": shards}} | more

    stopped = {"shard": 3, "state": "stopped"}
    replicas = [
        replica(100, "member", {"shard": 1, "state": "reading"}, stopped),
        replica(100, "waiting"),
        replica(100, "starting"),
        replica(10_001, "member", {"shard": 2, "state": "stopped"}),
        {"revision": 1},
        {"report": {"state": "member"}, "reportAgeMs": 1},
    ]
    status = {"resolution": "Running", "reason": "why", "revisions": [1] * 5, "replicas": replicas}
    (trigger,) = facts_of_objects([], [{"name": "bill", "status": status}]).triggers
    assert trigger == TriggerSummary("bill", "Running", "why", 5, 2, (3,))
