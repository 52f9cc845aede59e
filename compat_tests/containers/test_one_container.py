"""`tailrace up` with two SPUs in one container: stock clients reach it from everywhere with one listener."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from cluster import READY_LINE, READY_SECONDS_MAX
from containers.client import Client
from containers.namespaces import Machine, Namespace, programs
from waiting import wait_until

PAGE = Path(__file__).parents[2] / "docs" / "deployment.md"
FORWARDER = Path(__file__).with_name("forwarder.py")
PUBLISHED = {1: "127.0.0.1:19092", 2: "127.0.0.1:19093"}


class Places(NamedTuple):
    host: Namespace
    broker: Namespace
    other: Namespace
    address: str
    """The address of the broker's container on the network of containers."""


def documented_command() -> tuple[list[str], list[str]]:
    """Returns the published ports and the words after the image of the `docker run` on the page."""
    (found,) = re.findall(r"^docker run (?=-p )((?:.*\\\n)*.*)", PAGE.read_text(), re.MULTILINE)
    options, _, command = found.replace("\\\n", " ").partition(" tailrace ")
    return re.findall(r"-p (\S+)", options), command.split()


@pytest.fixture
def places(machine: Machine, tmp_path: Path) -> Iterator[Places]:
    """Yields the host and two containers. The first container runs two SPUs, whose ports are published on the host."""
    address = machine.name("broker")
    machine.name("other")
    broker, other = machine.container("broker", {}), machine.container("other", {})
    output = tmp_path / "up.output"
    published, command = documented_command()
    words = ["tailrace", *command, "--data", str(tmp_path / "data")]
    ports = [f"{place}={address}:{port}" for place, _, port in (each.rpartition(":") for each in published)]
    with output.open("wb") as out, (tmp_path / "up.errors").open("wb") as errors:
        up = subprocess.Popen(broker.inside(words), stdin=subprocess.DEVNULL, stdout=out, stderr=errors, env=programs())
        proxy = subprocess.Popen(
            machine.host.inside([sys.executable, str(FORWARDER), *ports]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env=programs(),
        )
    try:
        assert proxy.stdout is not None
        assert proxy.stdout.readline() == b"ready\n"
        wait_until(lambda: READY_LINE.search(output.read_text()), READY_SECONDS_MAX, "two SPUs are ready")
        yield Places(machine.host, broker, other, address)
    finally:
        proxy.kill()
        proxy.wait()
        if proxy.stdout is not None:
            proxy.stdout.close()
        up.terminate()
        up.wait()


def test_a_client_is_told_addresses_that_are_right_where_it_is(places: Places) -> None:
    inside = {1: "127.0.0.1:9092", 2: "127.0.0.1:9093"}
    beside = {1: f"{places.address}:9092", 2: f"{places.address}:9093"}
    seen = [
        Client(place, "librdkafka", bootstrap).brokers()
        for place, bootstrap in (
            (places.broker, "127.0.0.1:9092"),
            (places.broker, "127.0.0.1:9093"),
            (places.broker, "127.0.0.1:9003"),
            (places.other, "broker:9092"),
            (places.other, "broker:9093"),
            (places.other, "broker:9003"),
            (places.host, "127.0.0.1:19092"),
            (places.host, "127.0.0.1:19093"),
            (places.host, "127.0.0.1:19003"),
        )
    ]
    assert seen == [inside] * 3 + [beside] * 3 + [PUBLISHED] * 3


def test_records_written_in_one_place_are_read_in_another(places: Places) -> None:
    host = Client(places.host, "librdkafka", PUBLISHED[1])
    host("create", "orders", 4)
    host("produce", "orders", 4, 0, 20)
    Client(places.other, "kafka-python", "broker:9093")("produce", "orders", 4, 20, 20)
    expected = {partition: list(range(partition, 40, 4)) for partition in range(4)}
    for place, bootstrap in ((places.broker, "127.0.0.1:9092"), (places.host, PUBLISHED[2])):
        assert Client(place, "kafka-python", bootstrap).consume("orders", 4, 40) == expected
