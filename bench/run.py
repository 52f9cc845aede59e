"""`make bench`: runs the same client work on Apache Kafka and Tailrace in turns, and prints a table with the ratios.

Both brokers run on this machine at the same time, and each does every piece of work several times. The table shows
medians. The bench asserts nothing, because a shared machine is too noisy for that; a reader has to judge.
"""

import argparse
import contextlib
import shutil
import sys
import tempfile
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import psutil
from cluster import Broker, Tailrace
from goals import NODE_WORK, OURS_ONLY, PARTITIONS, ROWS
from node_cluster import NodeCluster, Watcher
from peer.apache_kafka import ApacheKafka
from peer.apache_kafka_cluster import ApacheKafkaCluster
from result_table import MARK, OURS, THEIRS, Figures, keep_table, machine, table
from running_work import run_cases, run_work, wait_until_at_rest
from spu_cluster import SeparateCluster

PATIENCE_SECONDS = 600
"""How long to wait until thousands of replicas are in sync."""
# These cases read what the previous case has written, and use its topic.
READS_THE_TOPIC_BEFORE = {"consume-1", "consume-8"}
COPIES = 3
System = TypeVar("System", Broker, NodeCluster)


def main() -> None:
    options = parse_options()
    print(f"# {machine()}; medians of {options.rounds} rounds in turns", file=sys.stderr)
    figures: dict[str, Figures] = {THEIRS: defaultdict(list), OURS: defaultdict(list)}
    directory = Path(options.directory) if options.directory else None
    if chosen := chains(options.only, copies=1):
        with running(directory, {THEIRS: ApacheKafka, OURS: Tailrace}) as brokers:
            measure_brokers(brokers, figures, chosen, options.rounds)
    if chosen := chains(options.only, copies=COPIES):
        with running(directory, {THEIRS: ApacheKafkaCluster, OURS: SeparateCluster}) as clusters:
            measure_clusters(clusters, figures, chosen, options.rounds)
    lines = table(figures, options.rounds, ROWS)
    print("\n".join(lines))
    if options.save:
        keep_table(Path(options.save), lines)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="how often each broker does each piece of work")
    parser.add_argument("--only", nargs="*", metavar="CASE", help="some of: " + ", ".join(case_names()))
    parser.add_argument("--directory", metavar="DIR", help="where the brokers keep their data (default: temporary)")
    parser.add_argument("--save", metavar="FILE", help=f"put the table into this file, below the line {MARK}")
    return parser.parse_args()


def case_names(copies: int | None = None) -> list[str]:
    """Returns the cases in the order in which they are measured."""
    wanted = [row.case for row in ROWS if row.copies == (copies or row.copies)]
    return [name for name in dict.fromkeys(wanted) if name not in ("start", "memory")]


def chains(only: list[str] | None, copies: int) -> list[list[str]]:
    """Returns the cases, each followed by those that read its topic."""
    found: list[list[str]] = []
    for name in case_names(copies):
        if name in READS_THE_TOPIC_BEFORE:
            found[-1].append(name)
        else:
            found.append([name])
    return [chain for chain in found if not only or set(chain) & set(only)]


@contextlib.contextmanager
def running(directory: Path | None, kinds: dict[str, Callable[[Path], System]]) -> Iterator[dict[str, System]]:
    """Yields both systems, started, each with its own directory."""
    home = Path(tempfile.mkdtemp(prefix="bench-", dir=directory))
    started: dict[str, System] = {}
    try:
        for name, kind in kinds.items():
            (home / name.replace(" ", "-")).mkdir()
            started[name] = kind(home / name.replace(" ", "-"))
            started[name].start()
        yield started
    finally:
        for system in started.values():
            system.stop()
        shutil.rmtree(home)


def measure_brokers(
    brokers: dict[str, Broker], figures: dict[str, Figures], chosen: list[list[str]], rounds: int
) -> None:
    """Measures with one broker of each system."""
    measure_starts(brokers, figures, rounds)
    for name, broker in brokers.items():
        figures[name]["memory", "idle_megabytes"].append(resident_megabytes(broker))
        run_cases(broker.bootstrap, [broker.pid], ["warm-up"], defaultdict(list))
    for chain, name in turns(chosen, list(brokers), rounds):
        run_cases(brokers[name].bootstrap, [brokers[name].pid], chain, figures[name])
    for name, broker in brokers.items():
        figures[name]["memory", "loaded_megabytes"].append(resident_megabytes(broker))


def measure_clusters(
    clusters: dict[str, NodeCluster], figures: dict[str, Figures], chosen: list[list[str]], rounds: int
) -> None:
    """Measures with three brokers of each system, and a controller in a process of its own."""
    if [PARTITIONS] in chosen:
        measure_partitions(clusters[OURS], figures[OURS])  # a heap of fixed size would not show how much they need
    for cluster in clusters.values():
        run_cases(cluster.bootstrap, pids(cluster), ["warm-up"], defaultdict(list), COPIES)
    for chain, name in turns([chain for chain in chosen if chain != [PARTITIONS]], list(clusters), rounds):
        if chain[0] in NODE_WORK:
            measure_node_work(clusters[name], chain[0], figures[name])
        else:
            run_cases(clusters[name].bootstrap, pids(clusters[name]), chain, figures[name], COPIES)


def turns(chosen: list[list[str]], names: list[str], rounds: int) -> Iterator[tuple[list[str], str]]:
    """Yields what to run on which system next: each case on both in turns, with alternating order."""
    for chain in chosen:
        for number in range(rounds):
            for name in names if number % 2 else names[::-1]:
                if name == OURS or chain[0] not in OURS_ONLY:
                    yield chain, name
        print(f"# {time.strftime('%H:%M:%S')} {', '.join(chain)}", file=sys.stderr)


def measure_starts(brokers: dict[str, Broker], figures: dict[str, Figures], rounds: int) -> None:
    """Measures the time from the start of the process to its first response.

    The data is from a clean stop, and the other broker rests meanwhile.
    """
    for _ in range(rounds):
        for name, broker in brokers.items():
            broker.stop()
            wait_until_at_rest([other.pid for other in brokers.values() if other is not broker])
            started = time.perf_counter()
            broker.start()
            figures[name]["start", "seconds"].append(time.perf_counter() - started)


def measure_partitions(cluster: NodeCluster, figures: Figures) -> None:
    """Measures the memory of idle replicas, in processes that have done nothing else."""
    watcher = Watcher(cluster.bootstrap)
    topics = [f"bench-{uuid.uuid4().hex[:8]}" for _ in range(11)]
    for topic in topics:
        watcher.create_topic(topic, 100, COPIES)
        if topic is topics[0]:  # the first topic also costs what is needed only once
            before = private_bytes(pids(cluster))
    taken = private_bytes(pids(cluster)) - before
    figures[PARTITIONS, "per_gibibyte"].append(10 * 100 * COPIES / (taken / (1 << 30)))
    for topic in topics:
        watcher.delete_topic(topic)


def private_bytes(processes: list[int]) -> int:
    return sum(psutil.Process(pid).memory_full_info().uss for pid in processes)


def measure_node_work(cluster: NodeCluster, case: str, figures: Figures) -> None:
    """Measures a case whose client kills or stops nodes; they are restarted only when the client is done."""
    watcher, work = Watcher(cluster.bootstrap, PATIENCE_SECONDS), NODE_WORK[case]
    topic = f"bench-{uuid.uuid4().hex[:8]}"
    configs = {"min.insync.replicas": 2, **work.configs}
    if work.are_led_by_one:
        watcher.create_topic_of_rows(topic, rows_led_by_one(cluster.ids, work.partitions), configs)
    else:
        watcher.create_topic(topic, work.partitions, COPIES, configs)
    named_pids = [f"{node}:{cluster.node_pid(node)}" for node in cluster.ids]
    measured = run_work(cluster.bootstrap, case, topic, *named_pids)
    killed = measured.pop("node", None)
    for figure, value in measured.items():
        figures[case, figure].append(value)
    if killed is not None:
        cluster.kill_node(int(killed))  # the process is dead already; this makes the cluster object notice it
        cluster.start_node(int(killed))
    watcher.wait_until_all_in_sync(topic, work.partitions)
    watcher.delete_topic(topic)


def rows_led_by_one(nodes: Sequence[int], partitions: int) -> list[list[int]]:
    """Returns a replica assignment with the same leader for all partitions, and alternating order of the followers."""
    leader, *followers = nodes
    return [[leader, *(followers if number % 2 else followers[::-1])] for number in range(partitions)]


def pids(cluster: NodeCluster) -> list[int]:
    return [cluster.node_pid(node) for node in cluster.ids]


def resident_megabytes(broker: Broker) -> float:
    return float(psutil.Process(broker.pid).memory_info().rss) / (1 << 20)


if __name__ == "__main__":
    main()
