"""What should be here: SPUs, topics and partitions as the source of specs describes them.

Specs never change: the source replaces them by new ones, so whoever holds one may keep it while waiting.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tailrace.protocol.ids import Epoch, SpuId, TopicId


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where clients reach an SPU by one of its listeners."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class SpuSpec:
    id: SpuId
    rack: str | None = None
    endpoints: tuple[Endpoint, ...] = ()
    online: bool = True

    def endpoint(self, listener: str) -> Endpoint | None:
        return next((endpoint for endpoint in self.endpoints if endpoint.listener == listener), None)


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    topic_id: TopicId
    topic: str
    partition: int
    leader: SpuId
    """NO_LEADER while an election is under way."""
    epoch: Epoch
    replicas: tuple[SpuId, ...]
    """The preferred leader first."""
    live_replicas: tuple[SpuId, ...]


@dataclass(frozen=True, slots=True)
class TopicSpec:
    id: TopicId
    name: str
    configs: Mapping[str, str]
    """Only what the topic sets itself, by Kafka's names; every value is checked and in its canonical form."""
    partitions: tuple[PartitionSpec, ...]
    """By partition number, without a gap."""
    internal: bool = False


NO_LEADER = SpuId(-1)
