"""Creates the topics that a trigger writes failed records to, after the model of the topic that it reads."""

from collections.abc import Mapping

from msgspec import Struct

from tailrace.client.admin_client import TOPIC_RESOURCE, AdminClient, ConfigResource, NewTopic
from tailrace.client.server_connection import RefusedError
from tailrace.client.spu_client import SpuClient
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.metadata import MetadataResponseTopic

HEADERS_BYTES_MAX = 64 * 1024
"""How much larger than in the model a record may be: failed records get headers with an error and a traceback."""

_SIZE = "max.message.bytes"


class Ensured(Struct, frozen=True):
    """The number of partitions of a topic, before and after it was ensured."""

    before: int
    """0 if the topic did not exist."""
    partitions: int


async def ensure_topic(spus: SpuClient, name: str, model: str, least: int = 1) -> Ensured:
    """Creates a topic with as many partitions and replicas as another one, unless it exists. Adds partitions if it has
    fewer than `least`, because the model has got more.

    Raises RefusedError and UnreachableError.
    """
    client = AdminClient(spus)
    before = await _partitions(client, name)
    if before >= least:
        return Ensured(before, before)
    (topic,) = await client.topics([model])
    if not before:
        return await _create(client, name, topic)
    partitions = max(least, len(topic.partitions))
    try:
        await client.add_partitions(name, partitions)
    except RefusedError as refused:
        if (now := await _partitions(client, name)) >= least:  # another replica was faster
            return Ensured(now, now)
        raise RefusedError(f"topic {name} cannot get {partitions} partitions: {refused}", refused.code) from refused
    return Ensured(before, partitions)


async def _partitions(client: AdminClient, name: str) -> int:
    found = (await client.logs.partitions([name]))[name]
    return 0 if isinstance(found, RefusedError) else len(found)


async def _create(client: AdminClient, name: str, model: MetadataResponseTopic) -> Ensured:
    partitions = len(model.partitions)
    replicas = max((len(each.replica_nodes) for each in model.partitions), default=-1)
    configs = await _configs(client, model.name or "")
    try:
        await client.create_topic(NewTopic(name, partitions, replicas, configs=configs))
    except RefusedError as refused:
        if refused.code == ErrorCode.TOPIC_ALREADY_EXISTS:  # another replica was faster
            return Ensured(partitions, partitions)
        raise RefusedError(f"topic {name} cannot be created: {refused}", refused.code) from refused
    return Ensured(0, partitions)


async def _configs(client: AdminClient, model: str) -> Mapping[str, str]:
    for each in await client.configs(ConfigResource(TOPIC_RESOURCE, model), documented=False):
        if each.name == _SIZE and each.value is not None:
            return {_SIZE: str(int(each.value) + HEADERS_BYTES_MAX)}
    return {}
