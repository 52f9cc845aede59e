"""Fresh topics: each test has its own, so tests share a broker and may run at the same time."""

import re
import uuid
from collections.abc import Callable, Mapping

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]
from waiting import wait_until

CreateTopic = Callable[..., str]


def topic_creator(bootstrap: str, test_name: str) -> CreateTopic:
    """A function that creates topics whose names tell which test made them; parameters are the topic's configs."""

    def create(partitions: int = 1, config: Mapping[str, str] | None = None, **more: str) -> str:
        # A client that asks about its second topic too early may never again believe that it has a leader.
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
        name = f"{re.sub('[^a-zA-Z0-9._-]+', '-', test_name)[:80]}-{uuid.uuid4().hex[:8]}"
        settings = dict(config or {}) | {key.replace("_", "."): value for key, value in more.items()}
        topics = [NewTopic(name, partitions, 1, config=settings)]
        admin.create_topics(topics, operation_timeout=10, request_timeout=10)[name].result(20)

        wait_until(lambda: every_partition_answers(admin, name, partitions), seconds=20)
        return name

    return create


def every_partition_answers(admin: AdminClient, topic: str, partitions: int) -> bool:
    """Metadata may name a leader some time before it leads, and before all of the topic is known."""
    first = {TopicPartition(topic, partition): OffsetSpec.earliest() for partition in range(partitions)}  # type: ignore[no-untyped-call]
    try:
        for future in admin.list_offsets(first, request_timeout=10).values():
            future.result(20)
    except KafkaException:
        return False
    return True


def create_anew(bootstrap: str, topic: str) -> None:
    """Deletes the topic, and makes another one of that name with one partition."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    admin.delete_topics([topic], operation_timeout=10, request_timeout=10)[topic].result(20)

    def is_created() -> bool:
        try:
            admin.create_topics([NewTopic(topic, 1, 1)], operation_timeout=10, request_timeout=10)[topic].result(20)
        except KafkaException:
            return False  # where it is not deleted everywhere when that is said
        return True

    wait_until(is_created, seconds=20)
    wait_until(lambda: every_partition_answers(admin, topic, 1), seconds=20)
