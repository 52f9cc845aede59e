"""Kafka Connect writes each line of a file once, and MirrorMaker copies each record once, whatever is killed."""

import json
import subprocess
import uuid
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from free_ports import free_port
from node_cluster import NodeCluster, Watcher
from peer.apache_kafka import SHORT_LIVED, logging_option
from peer.jars import connect_class_path, java
from waiting import wait_until

from .transaction_readers import coordinator, values

LINES = 300
"""How many lines are written at once."""
PER_TRANSACTION = 10
SECONDS_MAX = 90
STRINGS, BYTES = (
    "org.apache.kafka.connect.storage.StringConverter",
    "org.apache.kafka.connect.converters.ByteArrayConverter",
)


class Worker:
    """A worker of a Connect cluster that has transactions of sources on."""

    def __init__(self, bootstrap: str, name: str, directory: Path) -> None:
        self._address = f"127.0.0.1:{free_port()}"
        self._settings = directory / f"worker-{self._address.split(':')[1]}.properties"
        stores = {f"{each}.storage.topic": f"{name}-{each}" for each in ("config", "offset", "status")}
        copies = {f"{each}.storage.replication.factor": "3" for each in ("config", "offset", "status")}
        partitions = {f"{each}.storage.partitions": "1" for each in ("offset", "status")}
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": name,
            "exactly.once.source.support": "enabled",
            "key.converter": STRINGS,
            "value.converter": STRINGS,
            "listeners": f"http://{self._address}",
            "plugin.discovery": "service_load",
            # The next worker should not wait long for a killed one.
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "2000",
            "scheduled.rebalance.max.delay.ms": "0",
            # Nor for the end of a transaction that a killed worker left open. The default is a minute.
            "producer.transaction.timeout.ms": "10000",
        }
        self._settings.write_text(
            "".join(f"{key}={value}\n" for key, value in (settings | stores | copies | partitions).items())
        )
        program = "org.apache.kafka.connect.cli.ConnectDistributed"
        command = [java(), *SHORT_LIVED, logging_option(), "-cp", connect_class_path(), program, str(self._settings)]
        self.process = subprocess.Popen(command)

    def put(self, connector: str, settings: Mapping[str, str]) -> None:
        """Creates the connector when the worker is ready."""
        body = json.dumps(settings).encode()

        def is_accepted() -> bool:
            assert self.process.poll() is None, "the worker has ended"
            request = Request(f"http://{self._address}/connectors/{connector}/config", body, method="PUT")
            request.add_header("Content-Type", "application/json")
            try:
                urlopen(request, timeout=30).close()
            except HTTPError as error:
                told = error.read().decode()
                assert error.code in (404, 409, 500, 503), told  # the worker is starting, or joins its group
                return False
            except (OSError, HTTPException):
                return False
            return True

        wait_until(is_accepted, SECONDS_MAX, f"the worker accepts {connector}")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def start(nodes: NodeCluster, tmp_path: Path) -> Iterator[Callable[[str], Worker]]:
    """Yields a function that starts a worker of the Connect cluster with this name."""
    started: list[Worker] = []

    def launch(name: str) -> Worker:
        started.append(Worker(nodes.bootstrap, name, tmp_path))
        return started[-1]

    yield launch
    for worker in started:
        worker.kill()


@pytest.mark.timeout(240)
def test_sources_write_each_record_once(nodes: NodeCluster, start: Callable[[str], Worker], tmp_path: Path) -> None:
    name, watcher = f"connect-{uuid.uuid4().hex[:8]}", Watcher(nodes.bootstrap)
    lines, file = f"{name}-lines", tmp_path / "lines"
    copies = f"near.{lines}"
    for topic in (lines, copies):
        watcher.create_topic(topic, configs={"min.insync.replicas": 2})
    sent: list[str] = []

    def write() -> None:
        new = [f"line-{number}" for number in range(len(sent), len(sent) + LINES)]
        with file.open("a") as opened:
            opened.writelines(f"{line}\n" for line in new)
        sent.extend(new)

    def wait_for(topic: str, count: int) -> None:
        def are_there() -> bool:
            return len(values(nodes.bootstrap, topic, [0])) >= count

        wait_until(are_there, SECONDS_MAX, f"{count} records in {topic}")

    write()
    worker = start(name)
    source = {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "exactly.once.support": "required",
        "file": str(file),
        "topic": lines,
    }
    mirror = {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "exactly.once.support": "required",
        "key.converter": BYTES,
        "value.converter": BYTES,
        "source.cluster.alias": "near",
        "target.cluster.alias": "far",
        "source.cluster.bootstrap.servers": nodes.bootstrap,
        "target.cluster.bootstrap.servers": nodes.bootstrap,
        "source.consumer.isolation.level": "read_committed",
        "source.consumer.max.poll.records": str(PER_TRANSACTION),
        "topics": lines,
        "sync.topic.acls.enabled": "false",
    }
    worker.put(f"{name}-file", source)
    worker.put(f"{name}-mirror", mirror)
    wait_for(copies, 1)
    worker.kill()
    write()
    successor = start(name)
    wait_for(copies, LINES + 1)
    nodes.kill_node(coordinator(watcher, f"{name}-{name}-mirror-0"))
    write()
    wait_for(lines, len(sent))
    wait_for(copies, len(sent))
    assert values(nodes.bootstrap, lines, [0]) == sent
    assert values(nodes.bootstrap, copies, [0]) == sent
    assert successor.process.poll() is None
