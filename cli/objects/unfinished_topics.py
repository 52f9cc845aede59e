"""Says what a topic with missing replicas waits for, and what a person can do about it."""

from collections.abc import Iterable

from tailrace.controller.objects.objects import Topic, TopicResolution


def waiting_topics(topics: Iterable[Topic]) -> list[str]:
    """Returns a sentence for each topic that has no effect yet, or only a part of it."""
    return [f"{_state(each)}. {_remedy(each)}" for each in topics if not is_in_effect(each)]


def is_in_effect(topic: Topic) -> bool:
    """Whether the topic has replicas for all of its partitions."""
    is_provisioned = topic.status.resolution is TopicResolution.PROVISIONED
    return is_provisioned and len(topic.status.replica_map) >= topic.spec.partitions


def _state(topic: Topic) -> str:
    reason = topic.status.reason or "the SC has not decided about it yet"
    if topic.status.resolution is TopicResolution.PROVISIONED:
        return f"topic {topic.name} has {len(topic.status.replica_map)} partitions, and waits for more: {reason}"
    return f"topic {topic.name} is stored, but no client can use it yet: {reason}"


def _remedy(topic: Topic) -> str:
    match topic.status.resolution:
        case TopicResolution.INVALID_CONFIG:
            return (
                f"Correct it with `tailrace topic alter {topic.name}` (--partitions, --replication-factor or "
                "--replica-assignment) or with `tailrace apply`"
            )
        case TopicResolution.INSUFFICIENT_RESOURCES:
            return (
                "It gets its replicas as soon as enough SPUs run, for example after `tailrace up --spus "
                f"{topic.spec.replication_factor}`; or run `tailrace topic alter {topic.name} --replication-factor N`"
            )
        case _:
            return "It gets its missing replicas as soon as possible"
