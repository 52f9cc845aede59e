"""Creates the topics that a trigger writes failed records to, after the model of the topic that it reads."""

from collections.abc import Mapping

from tailrace.protocol.error_codes import ErrorCode

from .admin_client import TOPIC_RESOURCE, AdminClient, ConfigResource, NewTopic
from .server_connection import RefusedError
from .spu_client import SpuClient

HEADERS_BYTES_MAX = 64 * 1024
"""How much larger than in the model a record may be: failed records get headers with an error and a traceback."""

_SIZE = "max.message.bytes"


async def create_missing(spus: SpuClient, name: str, model: str) -> bool:
    """Creates a topic with as many partitions and replicas as another one, unless it exists.

    Returns whether the topic was created. Raises RefusedError and UnreachableError.
    """
    client = AdminClient(spus)
    if not isinstance((await client.logs.partitions([name]))[name], RefusedError):
        return False
    (topic,) = await client.topics([model])
    replicas = max((len(each.replica_nodes) for each in topic.partitions), default=-1)
    try:
        await client.create_topic(
            NewTopic(name, len(topic.partitions), replicas, configs=await _configs(client, model))
        )
    except RefusedError as refused:
        if refused.code == ErrorCode.TOPIC_ALREADY_EXISTS:  # another replica was faster
            return False
        raise RefusedError(f"topic {name} cannot be created: {refused}", refused.code) from refused
    return True


async def _configs(client: AdminClient, model: str) -> Mapping[str, str]:
    for each in await client.configs(ConfigResource(TOPIC_RESOURCE, model), documented=False):
        if each.name == _SIZE and each.value is not None:
            return {_SIZE: str(int(each.value) + HEADERS_BYTES_MAX)}
    return {}
