"""Checks that a topic can take a replay, and finds what the replay needs to know of it."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from tailrace.client.admin_client import TOPIC_RESOURCE, AdminClient, ConfigResource
from tailrace.client.log_client import ProducerName
from tailrace.client.log_facts import Partition
from tailrace.client.server_connection import unless_refused
from tailrace.client.spu_client import SpuClient

from .replay_line import ReplayError

_NO_ID = "00000000-0000-0000-0000-000000000000"
_CREATE_TIME = "CreateTime"


class Target(Struct, frozen=True):
    """The topic to which a replay sends."""

    topic: str
    topic_id: str
    partitions: int
    configs: Mapping[str, str | None]
    """Its configs, by name."""

    @property
    def retention_ms(self) -> int | None:
        """How old records may be; None for any age."""
        if "delete" not in (self.configs.get("cleanup.policy") or "delete"):
            return None
        found = int(self.configs.get("retention.ms") or -1)
        return None if found < 0 else found


class TargetClient:
    """Asks the brokers of the target. All methods raise RefusedError and UnreachableError."""

    def __init__(self, spus: SpuClient) -> None:
        self._spus = spus
        self._admin = AdminClient(spus)

    async def target(self, topic: str) -> Target:
        """Finds the topic."""
        (found,) = await self._admin.topics([topic])
        resource = ConfigResource(TOPIC_RESOURCE, topic)
        configs = unless_refused((await self._admin.configs_of([resource]))[resource])
        topic_id = self._spus.topic_ids.get(topic)
        return Target(
            topic,
            _NO_ID if topic_id is None else str(topic_id),
            len(found.partitions),
            {each.name: each.value for each in configs},
        )

    async def log_ends(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Returns the ends of partitions."""
        ends = await self._admin.logs.ends([Partition(topic, each) for each in partitions])
        return {each.number: unless_refused(found).end for each, found in ends.items()}

    async def producer_name(self) -> ProducerName:
        """Gets the producer id of a new replay."""
        return await self._admin.logs.producer_name()


def check_target(target: Target, topic: str, partitions: Iterable[int]) -> None:
    """Raises ReplayError if the topic cannot take these partitions of the source with their times."""
    last = max(partitions, default=-1)
    if last >= target.partitions:
        raise ReplayError(
            f"{target.topic} has {target.partitions} {'partition' if target.partitions == 1 else 'partitions'}, and "
            f"{topic}/{last} needs {last + 1}: add some with "
            f"`tailrace topic alter {target.topic} --partitions {last + 1}`"
        )
    kind = target.configs.get("message.timestamp.type") or _CREATE_TIME
    if kind != _CREATE_TIME:
        raise ReplayError(
            f"{target.topic} replaces the times of records, because its message.timestamp.type is {kind}: set it to "
            f"{_CREATE_TIME} with `tailrace config set topic {target.topic} message.timestamp.type={_CREATE_TIME}`"
        )


def check_retention(target: Target, first_timestamp: int | None, now_ms: int) -> None:
    """Raises ReplayError if the topic would delete the first record for its age as soon as it is there."""
    retention_ms = target.retention_ms
    if retention_ms is None or first_timestamp is None or first_timestamp >= now_ms - retention_ms:
        return
    days = retention_ms / 86_400_000
    raise ReplayError(
        f"{target.topic} deletes records that are older than {days:g} days, and the first record is: set retention.ms "
        f"with `tailrace config set topic {target.topic} retention.ms=-1`, or leave out old records"
    )
