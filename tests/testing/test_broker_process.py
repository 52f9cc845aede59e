import asyncio
import socket
import tempfile
from pathlib import Path

import pytest
import trio

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tailrace.testing import Broker, BrokerError, ClientLogin
from tailrace.testing.broker_connection import ask


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the directory for temporary files, of this process and of its children."""
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def _connects(bootstrap: str) -> bool:
    host, _, port = bootstrap.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 20).close()
    except ConnectionRefusedError:
        return False
    return True


def test_a_broker_runs_inside_its_block_and_leaves_nothing(directory: Path) -> None:
    with Broker() as broker:
        assert broker.is_running
        bootstrap = broker.bootstrap
        assert _connects(bootstrap)
        assert broker.create_topic("orders", partitions=3, configs={"cleanup.policy": "compact"}) == "orders"
        with pytest.raises(BrokerError, match="the topic orders was not created"):
            broker.create_topic("orders")
        assert len(list(directory.iterdir())) == 1
    assert not broker.is_running
    assert not _connects(bootstrap)
    assert not list(directory.iterdir())
    assert "spu_started" in broker.log()
    assert broker.log(broker.log_size) == ""
    with pytest.raises(BrokerError, match="use it inside its `with` block"):
        _ = broker.bootstrap


def test_a_secure_broker_serves_its_users_as_rules_allow(directory: Path) -> None:
    with Broker(secure=True, settings={"num.partitions": "2"}) as broker:
        assert broker.create_topic("orders") == "orders"
        alice = broker.create_user("alice", "alice-secret")
        request = MetadataRequest([MetadataRequestTopic(name="orders")], allow_auto_topic_creation=False)
        described = ask(broker.bootstrap, alice, request, 9)
        assert [each.error_code for each in described.topics] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        broker.allow(alice, "read", topic="ord*", group="*")
        described = ask(broker.bootstrap, alice, request, 9)
        assert [(each.name, each.error_code) for each in described.topics] == [("orders", 0)]
        stranger = ClientLogin(broker.bootstrap, "alice", "guess", alice.authority)
        with pytest.raises(BrokerError, match="the login of alice"):
            ask(broker.bootstrap, stranger, request, 9)
        with pytest.raises(BrokerError, match="the broker at"):
            ask(broker.bootstrap, None, request, 9)
    assert not list(directory.iterdir())
    with pytest.raises(BrokerError, match=r"start it with `Broker\(secure=True\)`"):
        _ = broker.admin


def test_asyncio_and_several_spus() -> None:
    async def count_brokers() -> int:
        async with Broker(spus=2, settings={"num.partitions": "2"}) as broker:
            broker.create_topic("orders", replication_factor=2)
            return len(broker.bootstrap.split(","))

    assert asyncio.run(count_brokers()) == 2


async def test_trio_waits_for_the_broker_without_blocking() -> None:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count_turns)
        async with Broker() as broker:
            assert _connects(broker.bootstrap)
        nursery.cancel_scope.cancel()
    assert turns > 10


def test_a_cancelled_start_ends_the_process(directory: Path) -> None:
    broker = Broker()

    async def start() -> None:
        async with broker:
            await asyncio.Event().wait()

    async def cancel_start() -> None:
        task = asyncio.create_task(start())
        await asyncio.sleep(0)
        assert broker.is_running
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel_start())
    assert not broker.is_running
    assert not list(directory.iterdir())


def test_a_broker_that_cannot_start_says_why(directory: Path) -> None:
    with pytest.raises(BrokerError, match=r"did not start: tailrace up: .*num\.partitions"):
        Broker(settings={"num.partitions": "many"}).start()
    assert not list(directory.iterdir())


def test_a_broker_is_started_once() -> None:
    with Broker() as broker, pytest.raises(BrokerError, match="runs already"):
        broker.start()


def test_settings_of_the_shell_do_not_reach_the_broker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TAILRACE_DATA", str(tmp_path / "precious"))
    monkeypatch.setenv("TAILRACE_SPUS", "0")
    with Broker():
        assert not (tmp_path / "precious").exists()
