"""`tailrace up` as a newcomer starts it, on its default ports."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import READY_LINE, READY_SECONDS_MAX
from containers.client import Client
from containers.namespaces import Machine, Namespace, programs
from waiting import wait_until


@pytest.fixture
def host(machine: Machine, tmp_path: Path) -> Iterator[Namespace]:
    """Yields a host with three running SPUs."""
    output = tmp_path / "up.output"
    with output.open("wb") as out, (tmp_path / "up.errors").open("wb") as errors:
        up = subprocess.Popen(
            machine.host.inside(["tailrace", "up", "--spus", "3", "--data", str(tmp_path / "data")]),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=errors,
            env=programs(),
        )
    try:
        wait_until(lambda: READY_LINE.search(output.read_text()), READY_SECONDS_MAX, "three SPUs are ready")
        yield machine.host
    finally:
        up.terminate()
        up.wait()


@pytest.mark.parametrize(("bootstrap", "ports"), [(9005, (9005, 9015, 9025)), (9092, (9092, 9102, 9112))])
def test_a_client_reaches_every_spu_whichever_port_it_starts_with(
    host: Namespace, bootstrap: int, ports: tuple[int, ...]
) -> None:
    client = Client(host, "librdkafka", f"127.0.0.1:{bootstrap}")
    assert client.brokers() == {spu: f"127.0.0.1:{port}" for spu, port in enumerate(ports, 1)}
    client("create", "orders", 6)
    assert client("produce", "orders", 6, 0, 6) == [0] * 6
