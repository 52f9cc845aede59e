"""Makes ids for the cluster and for topics; a topic id is never used again."""

import base64
from collections.abc import Callable
from uuid import UUID

from tailrace.protocol.ids import TopicId


def new_cluster_id(uuid: Callable[[], UUID]) -> str:
    return _base64(new_topic_id(uuid))


def new_topic_id(uuid: Callable[[], UUID]) -> TopicId:
    """Makes a topic id whose text does not begin with a dash, which would look like an option on a command line."""
    while True:
        topic_id = uuid()
        if topic_id.int > 1 and not _base64(topic_id).startswith("-"):
            return topic_id


def _base64(uuid: UUID) -> str:
    """Returns the text of an id as Kafka writes it."""
    return base64.urlsafe_b64encode(uuid.bytes).decode().rstrip("=")
