"""Creates topics with one request of the Kafka protocol."""

from collections.abc import Mapping

from tailrace.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

from .broker_connection import ANSWER_SECONDS_MAX, ask, check
from .broker_error import BrokerError
from .client_login import ClientLogin

VERSION = 7


def create_topic(
    bootstrap: str,
    name: str,
    partitions: int,
    replication_factor: int,
    configs: Mapping[str, str],
    login: ClientLogin | None = None,
) -> None:
    """Creates a topic at the first address of `bootstrap`. Raises BrokerError."""
    topic = CreatableTopic(
        name,
        partitions,
        replication_factor,
        configs=[CreatableTopicConfig(key, value) for key, value in configs.items()],
    )
    request = CreateTopicsRequest([topic], int(ANSWER_SECONDS_MAX * 1000))
    what = f"the topic {name} was not created"
    try:
        response = ask(bootstrap.partition(",")[0], login, request, VERSION)
    except BrokerError as error:
        raise BrokerError(f"{what}: {error}") from error
    for each in response.topics:
        check(each.error_code, each.error_message, what)
