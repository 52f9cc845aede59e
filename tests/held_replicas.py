"""Replicas of an SPU, on files in memory."""

from uuid import UUID

import pytest
from logs import log_at
from simulation.files import SimulatedFiles

from tailrace.broker.replicas.replica import Replica
from tailrace.broker.replicas.replica_registry import ReplicaRegistry
from tailrace.broker.replicas.topic_settings import settings_of
from tailrace.cluster.cluster import Cluster
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.specs import PartitionSpec, TopicSpec
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import Epoch, SpuId, TopicId

HERE, ELSEWHERE = SpuId(1), SpuId(2)
TOPIC_ID = TopicId(int=7)


def topic_of(name: str = "t", topic_id: TopicId = TOPIC_ID, leader: SpuId = HERE, partitions: int = 1) -> TopicSpec:
    return TopicSpec(
        topic_id,
        name,
        {},
        tuple(
            PartitionSpec(
                topic_id, name, number, leader, Epoch(5), (HERE,) if leader == HERE else (HERE, ELSEWHERE), (leader,)
            )
            for number in range(partitions)
        ),
    )


class World:
    def __init__(self) -> None:
        self.files = SimulatedFiles()
        self.cluster = Cluster()
        self.replicas = ReplicaRegistry(HERE, self.cluster)

    def add(self, topic: TopicSpec, **configs: str) -> list[Replica]:
        self.cluster.put_topic(topic)
        settings = settings_of({name.replace("_", "."): value for name, value in configs.items()}, BrokerConfigs({}))
        made = []
        for spec in topic.partitions:
            directory = f"/data/topics/{topic.name}/{topic.id}/{spec.partition}"
            log = log_at(self.files, directory, settings.log, clean=True)
            made.append(Replica(HERE, spec, log, settings, log.log_end))
            self.replicas.add(made[-1])
        return made

    def refusal(self, topic: str | UUID, partition: int = 0, epoch: int = -1) -> ErrorCode:
        with pytest.raises(KafkaError) as refused:
            self.replicas.leading(topic, partition, epoch)
        return refused.value.code
