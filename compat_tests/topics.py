"""Creates new topics, one or more for each test, so that tests can share a broker and run at the same time."""

import re
import uuid
from collections.abc import Callable, Mapping

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]
from waiting import wait_until

CreateTopic = Callable[..., str]


def topic_creator(bootstrap: str, test_name: str) -> CreateTopic:
    """Returns a function that creates topics named after the test; keyword arguments are the topic's configs."""

    def create(partitions: int = 1, config: Mapping[str, str] | None = None, **more: str) -> str:
        # Each topic gets a new client: a client that asks about its second topic too early may never notice that the
        # topic has a leader.
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
        name = f"{re.sub('[^a-zA-Z0-9._-]+', '-', test_name)[:80]}-{uuid.uuid4().hex[:8]}"
        settings = dict(config or {}) | {key.replace("_", "."): value for key, value in more.items()}
        topics = [NewTopic(name, partitions, 1, config=settings)]
        admin.create_topics(topics, operation_timeout=10, request_timeout=10)[name].result(20)

        wait_until(lambda: every_leader_responds(admin, name, partitions), seconds=20)
        return name

    return create


def every_leader_responds(admin: AdminClient, topic: str, partitions: int) -> bool:
    """Whether every partition's leader responds.

    Metadata may name a leader some time before it leads, and before all SPUs know the topic.
    """
    first = {TopicPartition(topic, partition): OffsetSpec.earliest() for partition in range(partitions)}  # type: ignore[no-untyped-call]
    try:
        for future in admin.list_offsets(first, request_timeout=10).values():
            future.result(20)
    except KafkaException:
        return False
    return True


def recreate_topic(bootstrap: str, topic: str) -> None:
    """Deletes the topic, and creates a topic of the same name with one partition."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    admin.delete_topics([topic], operation_timeout=10, request_timeout=10)[topic].result(20)

    def is_created() -> bool:
        try:
            admin.create_topics([NewTopic(topic, 1, 1)], operation_timeout=10, request_timeout=10)[topic].result(20)
        except KafkaException:
            return False  # the deletion may not be complete on every broker yet
        return True

    wait_until(is_created, seconds=20)
    wait_until(lambda: every_leader_responds(admin, topic, 1), seconds=20)
