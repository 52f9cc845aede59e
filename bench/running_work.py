"""Runs pieces of client work against a broker, each in a process of its own, and measures what they cost the broker."""

import json
import mmap
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import psutil
from goals import TOPIC_PARTITIONS
from node_cluster import Watcher
from result_table import Figures

HERE = Path(__file__).parent
WORK_SECONDS_MAX = 180
FILLS_MEMORY = {"produce-big", "consume-1", "consume-8", "produce-small", "copied-big"}
RESERVED_MEMORY = 2 << 30
AT_REST_SECONDS_MAX = 20
AT_REST_SHARE = 0.1
"""The CPU time of an idle broker, as a share of one core."""
CLIENT_SETTINGS = "BENCH_CLIENT_SETTINGS"
"""The environment variable with which work.py gets `Access.settings`."""


class Access(NamedTuple):
    """How the clients of some work reach a broker that is encrypted, or that demands a login."""

    name: str
    """Stands behind the name of the case where figures are kept."""
    bootstrap: str
    settings: Mapping[str, str]
    """Settings of librdkafka."""


def run_cases(
    bootstrap: str,
    processes: list[int],
    chain: list[str],
    figures: Figures,
    copies: int = 1,
    access: Access | None = None,
) -> None:
    """Does one piece of work after the other with a new topic, and keeps the figures.

    The topic is made through `bootstrap`. The work uses `access` instead if it is given.
    """
    watcher = Watcher(bootstrap)
    topic = f"bench-{uuid.uuid4().hex[:8]}"
    configs = {"file.delete.delay.ms": 1000, "min.insync.replicas": min(copies, 2)}
    watcher.create_topic(topic, TOPIC_PARTITIONS.get(chain[0], 1), copies, configs)
    try:
        for case in chain:
            # Otherwise this case would pay for the previous one's unwritten data and used memory.
            os.sync()
            if case in FILLS_MEMORY:
                reserve_memory()
            cpu_before = cpu_seconds(processes)
            if access is None:
                kept, measured = case, run_work(bootstrap, case, topic)
            else:
                kept = f"{case} {access.name}"
                measured = run_work(access.bootstrap, case, topic, settings=access.settings)
            measured["cpu_seconds"] = cpu_seconds(processes) - cpu_before
            if "requests" in measured and measured["cpu_seconds"]:
                measured["requests_per_cpu_second"] = measured["requests"] / measured["cpu_seconds"]
            for figure, value in measured.items():
                figures[kept, figure].append(value)
    finally:
        watcher.delete_topic(topic)


def reserve_memory() -> None:
    """Makes the virtual machine take as much memory from its host as a case may fill.

    Otherwise it would wait for each page that it had returned to the host, far longer than the copy into the page
    takes. It returns the memory two seconds later, which takes a moment, so that this does not pay off for short cases.
    """
    if sys.platform == "linux":
        size = min(RESERVED_MEMORY, psutil.virtual_memory().available // 2)
        mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE).close()


def run_work(
    bootstrap: str, case: str, topic: str, *more: str, settings: Mapping[str, str] | None = None
) -> dict[str, float]:
    """Does a piece of work in a new process, and returns what it has measured."""
    command = [sys.executable, str(HERE / "work.py"), bootstrap, case, topic, *more]
    environment = os.environ | {CLIENT_SETTINGS: json.dumps(dict(settings or {}))}
    done = subprocess.run(command, capture_output=True, text=True, timeout=WORK_SECONDS_MAX, env=environment)
    if done.returncode != 0:
        raise SystemExit(f"{case} against {bootstrap} failed:\n{done.stderr[-2000:]}")
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


def cpu_seconds(processes: list[int]) -> float:
    times = [psutil.Process(pid).cpu_times() for pid in processes]
    return float(sum(each.user + each.system for each in times))


def wait_until_at_rest(processes: list[int]) -> None:
    """Waits until the brokers are idle, because a JVM that has just started compiles for seconds, on all cores."""
    for _ in range(AT_REST_SECONDS_MAX):
        before = cpu_seconds(processes)
        time.sleep(1)
        if cpu_seconds(processes) - before < AT_REST_SHARE:
            return
