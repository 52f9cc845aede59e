"""Says once, when a cluster starts, that more SPUs run than topics have replicas, and which command changes that.

After `tailrace up` and then `tailrace up --spus 3`, every topic has one copy, and nothing changes that by itself.
"""

from collections.abc import Iterable

from tailrace.cluster.topic_names import INTERNAL_TOPICS
from tailrace.controller.objects.objects import Topic, TopicResolution
from tailrace.runtime.network import Address

REPLICATION_FACTOR_MAX = 3
"""The largest replication factor that is recommended: with three copies, one SPU may fail while another is replaced."""


def replication_hint(topics: Iterable[Topic], spus: int, sc_options: str) -> str | None:
    """Returns a sentence about topics with fewer replicas than they could have, or None if there are none.

    `sc_options` are the options with which a command reaches this cluster's SC.
    """
    wanted = min(spus, REPLICATION_FACTOR_MAX)
    few = [topic.name for topic in topics if _has_fewer(topic, wanted)]
    if not few:
        return None
    internal = sum(name in INTERNAL_TOPICS for name in few)
    of_them = f", {internal} of them internal" if internal else ""
    have = "1 topic has" if len(few) == 1 else f"{len(few)} topics have"
    return (
        f"{spus} SPUs run, but {have} fewer than {wanted} replicas{of_them}. To copy them: "
        f"tailrace topic alter --all --replication-factor {wanted}{sc_options}"
    )


def sc_options(sc: Address, default: Address) -> str:
    """Returns the options with which a command reaches the SC: none if it is at the usual address."""
    return "" if sc == default else f" --sc {sc}"


def _has_fewer(topic: Topic, wanted: int) -> bool:
    is_provisioned = topic.status.resolution is TopicResolution.PROVISIONED
    return is_provisioned and any(len(row) < wanted for row in topic.status.replica_map.values())
