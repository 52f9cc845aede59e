"""Checks that the SC, its command line and every SPU's Metadata agree, also with what the administrator expects."""

from collections.abc import Mapping

from chaos.administration import RETENTION, State, Topic
from chaos.metadata import PartitionMetadata, TopicsMetadata, fetch_metadata
from spu_cluster import objects
from waiting import wait_until

NOTHING_WRONG = 0


def sc_view(sc: str) -> TopicsMetadata:
    """Returns what `tailrace partition list` shows; only online partitions have no error."""
    told: TopicsMetadata = {}
    for each in objects(sc, "partition", "--internal"):
        partition = PartitionMetadata(
            NOTHING_WRONG if each["resolution"] == "Online" else -1,
            -1 if each["leader"] is None else each["leader"],
            -1 if each["epoch"] is None else each["epoch"],
            tuple(each["replicas"]),
            tuple(each["lrs"]),
        )
        told.setdefault(each["topic"], {})[each["partition"]] = partition
    return told


def disagreements(sc: str, addresses: Mapping[str, str]) -> list[str]:
    """Returns differences between the SC's command line and the metadata of each server, and everything else that is
    wrong."""
    expected = sc_view(sc)
    found = [
        f"the SC reports {topic}/{number}: {partition}"
        for topic, partitions in expected.items()
        for number, partition in partitions.items()
        if partition.error != NOTHING_WRONG or partition.leader not in partition.live
    ]
    for server, address in addresses.items():
        try:
            told = fetch_metadata(address).topics
        except (OSError, EOFError):
            if server.startswith("spu"):
                found.append(f"{server} does not respond")
            continue  # it is a standby SC
        for topic in sorted({*told, *expected}):
            if told.get(topic) != expected.get(topic):
                found.append(f"{server} reports {topic} as {told.get(topic)}, and the SC as {expected.get(topic)}")
    return found


def wait_until_all_agree(sc: str, addresses: Mapping[str, str], seconds: float = 30) -> None:
    found: list[str] = []

    def agree() -> bool:
        found[:] = disagreements(sc, addresses)
        return not found

    try:
        wait_until(agree, seconds)
    except AssertionError as error:
        raise AssertionError(f"{error}:\n" + "\n".join(found)) from None


def topics_at(sc: str) -> dict[str, Topic]:
    """Returns what `tailrace topic list` shows; a topic that lacks partitions has the partition count -1."""
    partitions = sc_view(sc)
    found = {}
    for each in objects(sc, "topic", "--internal"):
        name, spec, rows = each["name"], each["spec"], each["status"]["replicaMap"]
        numbers = set(range(spec["partitions"]))
        is_whole = numbers == set(map(int, rows)) == set(partitions.get(name, {}))
        count = spec["partitions"] if is_whole else -1
        found[name] = Topic(count, spec["replicationFactor"], str(spec.get("configs", {}).get(RETENTION)))
    return found


def unexpected(topics: Mapping[str, Topic], possible: Mapping[str, set[State]]) -> list[str]:
    return [
        f"{name} is {topics.get(name)}, but must be one of {sorted(map(str, states))}"
        for name, states in possible.items()
        if topics.get(name) not in states
    ]
