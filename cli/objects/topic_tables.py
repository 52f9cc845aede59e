"""Formats topics as tables and texts for people."""

from tailrace.cli.output.printing import time_text
from tailrace.cli.output.tables import fields, table
from tailrace.controller.objects.objects import DeletedTopic, ReplicaMap, Topic, TopicResolution


def creation_text(topic: Topic) -> str:
    """Says that a topic was created, and its state if it has no replicas yet."""
    return f"created topic {topic.name}{state_unless_provisioned(topic)}"


def state_unless_provisioned(topic: Topic) -> str:
    """Returns the end of a sentence about a topic: its state, unless it is the usual one."""
    resolution = topic.status.resolution
    return "" if resolution is TopicResolution.PROVISIONED else f"; its status is {resolution.value or 'new'}"


def topic_table(topics: list[Topic]) -> str:
    """Formats topics, one in each row."""
    return table(
        ("NAME", "PARTITIONS", "REPLICATION", "STATUS", "REASON"),
        [
            (
                topic.name,
                topic.spec.partitions,
                topic.spec.replication_factor,
                topic.status.resolution.value,
                topic.status.reason,
            )
            for topic in topics
        ],
    )


def deleted_table(topics: list[DeletedTopic]) -> str:
    """Formats deleted topics, one in each row."""
    return table(
        ("NAME", "ID", "PARTITIONS", "DELETED"),
        [
            (each.topic.name, each.topic.id, each.topic.spec.partitions, time_text(each.deleted_at_ms))
            for each in topics
        ],
    )


def description(topic: Topic) -> str:
    """Describes a topic. The replicas are in the form that `--replica-assignment` accepts, unless one has strayed."""
    spec, status = topic.spec, topic.status
    about = fields(
        [
            ("Topic", topic.name),
            ("Id", topic.id),
            ("Partitions", spec.partitions),
            ("Replication factor", spec.replication_factor),
            ("Ignores racks", "yes" if spec.ignores_racks else None),
            *((f"Config {name}", value) for name, value in spec.configs.items()),
            ("Status", status.resolution.value),
            ("Reason", status.reason),
        ]
    )
    return "\n".join([about, *_row_lines(status.replica_map, spec.replica_map)])


def _row_lines(rows: ReplicaMap, wanted: ReplicaMap) -> list[str]:
    """Lists the replicas, and where a person wants others."""
    lines = ["Replicas:"] if rows else []
    for number, replicas in rows.items():
        chosen = wanted.get(number, replicas)
        note = "" if chosen == replicas else f" (wanted: {list(chosen)})"
        lines.append(f"  - {number}: {list(replicas)}{note}")
    return lines
