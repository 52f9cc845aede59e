"""The topics of `tailrace up --topic`: reads them, and creates those that do not exist."""

import re
from collections.abc import Sequence

from msgspec import Struct

from tailrace.cluster.topic_names import check_topic_name
from tailrace.protocol.error_codes import KafkaError
from tailrace.runtime.network import Address, Network
from tailrace.runtime.settings import SettingsError

from .serving import CannotServeError

PARTITIONS_MAX = 10_000
REPLICAS_MAX = 1000
BY_DEFAULT = -1
"""The number that stands for the default of the cluster, in requests of Kafka's protocol."""
CREATE_MS_MAX = 30_000


class FirstTopic(Struct, frozen=True):
    """A topic that exists when the cluster is ready."""

    name: str
    partitions: int = BY_DEFAULT
    replicas: int = BY_DEFAULT


def first_topic(text: str) -> FirstTopic:
    """Reads NAME[:PARTITIONS[:REPLICAS]]. Raises SettingsError."""
    name, *numbers = text.split(":")
    for number, (what, maximum) in zip(
        numbers, (("partitions", PARTITIONS_MAX), ("replicas", REPLICAS_MAX)), strict=False
    ):
        if re.fullmatch(r"[0-9]{1,5}", number) is None or not 1 <= int(number) <= maximum:
            raise SettingsError(f"--topic {text}: {number!r} is not a number of {what} from 1 to {maximum}")
    if len(numbers) > 2:
        raise SettingsError(f"--topic {text}: expected NAME, NAME:PARTITIONS or NAME:PARTITIONS:REPLICAS")
    try:
        check_topic_name(name)
    except KafkaError as error:
        raise SettingsError(f"--topic {text}: {error.message}") from error
    return FirstTopic(name, *map(int, numbers))


def first_topics(texts: Sequence[str]) -> tuple[FirstTopic, ...]:
    """Reads several topics. Raises SettingsError."""
    topics = tuple(map(first_topic, texts))
    names = [each.name for each in topics]
    for name in names:
        if names.count(name) > 1:
            raise SettingsError(f"--topic {name}: the topic is given twice")
    return topics


async def create_missing(topics: Sequence[FirstTopic], broker: Address, network: Network) -> None:
    """Creates the topics that do not exist yet, at a broker that serves. Raises CannotServeError."""
    # Imported here because few clusters are started with topics.
    from tailrace.client.server_connection import Role, UnreachableError, connect, error_name
    from tailrace.protocol.apis import API_TABLE, ApiKey
    from tailrace.protocol.error_codes import ErrorCode
    from tailrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest

    wanted = [CreatableTopic(each.name, each.partitions, each.replicas) for each in topics]
    request = CreateTopicsRequest(wanted, CREATE_MS_MAX)
    try:
        connection = await connect(network, broker, Role("SPU", "Look into its log"), API_TABLE)
        try:
            response = await connection.ask(request, API_TABLE[ApiKey.CREATE_TOPICS].max_version)
        finally:
            connection.close()
    except UnreachableError as error:
        raise CannotServeError(f"--topic: {error}") from error
    for created in response.topics:
        if created.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            why = created.error_message or error_name(created.error_code)
            raise CannotServeError(f"--topic {created.name}: {why}")
