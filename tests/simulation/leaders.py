"""The leader of a partition as a simulated client knows it, which ignores past epochs like any Kafka client."""

from msgspec import Struct

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

from .patient_client import PatientClient, RetryError

METADATA_VERSION = 12


class Leader(Struct, frozen=True):
    spu: int
    epoch: int
    replicas: tuple[int, ...] = ()
    """The SPUs of the leader and of all other replicas."""


class Leaders:
    """The known leader epochs of one partition."""

    def __init__(self, client: PatientClient, topic: str, partition: int, epoch: int = -1) -> None:
        """Prepares the search; `epoch` is an epoch that is known to have existed."""
        self.topic = topic
        self.partition = partition
        self._client = client
        self._epoch = epoch

    async def find(self) -> Leader:
        """Asks for the leader; raises RetryError if there is none."""
        async with self._client.connected(self._client.any_spu()) as connected:
            asked = MetadataRequest([MetadataRequestTopic(name=self.topic)], allow_auto_topic_creation=False)
            response = await self._client.ask(connected, ApiKey.METADATA, METADATA_VERSION, asked)
        for topic in response.topics:
            for found in topic.partitions:
                if found.partition_index == self.partition and found.leader_id >= 0:
                    if found.leader_epoch < self._epoch:
                        raise RetryError(f"epoch {found.leader_epoch} is over, {self._epoch} is known")
                    self._epoch = found.leader_epoch
                    return Leader(found.leader_id, found.leader_epoch, tuple(found.replica_nodes))
        raise RetryError("nobody leads")
