"""Fresh topics: each test has its own, so tests share a broker and may run at the same time."""

import re
import uuid
from collections.abc import Callable, Mapping

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from waiting import wait_until

CreateTopic = Callable[..., str]


def topic_creator(bootstrap: str, test_name: str) -> CreateTopic:
    """A function that creates topics whose names tell which test made them; parameters are the topic's configs."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})

    def create(partitions: int = 1, config: Mapping[str, str] | None = None, **more: str) -> str:
        name = f"{re.sub('[^a-zA-Z0-9._-]+', '-', test_name)[:80]}-{uuid.uuid4().hex[:8]}"
        settings = dict(config or {}) | {key.replace("_", "."): value for key, value in more.items()}
        topics = [NewTopic(name, partitions, 1, config=settings)]
        admin.create_topics(topics, operation_timeout=10, request_timeout=10)[name].result(20)

        def every_partition_has_a_leader() -> bool:
            found = admin.list_topics(name, timeout=10).topics[name].partitions
            return len(found) == partitions and all(partition.leader >= 0 for partition in found.values())

        wait_until(every_partition_has_a_leader, seconds=20)
        return name

    return create
