"""Tests an attachment to a session in which no JVM runs; compat_tests/spark/ attaches to real sessions."""

import logging

import pytest
import trio
from simulation.network import MemoryNetwork
from spark_progress import ReportingQuery, ReportingSession, kafka_source, progress_document
from spus import SteadyClock
from structlog.testing import capture_logs

from tailrace.client.spu_client import BOOTSTRAP, SpuClient
from tailrace.pipeline.lag import attach
from tailrace.pipeline.lag.attachment import LOGGER, Attachment, serving_metrics
from tailrace.pipeline.lag.group_positions import GroupNameError, GroupPositions
from tailrace.pipeline.lag.lag_keeper import LagKeeper
from tailrace.pipeline.lag.query_progress import Sight
from tailrace.runtime.logs import get_logger
from tailrace.runtime.network import Address, receive_some, send_all
from tailrace.runtime.settings import SettingsError

NO_BROKER = "127.0.0.1:1"


def _attach(session: ReportingSession, metrics: str | None = None) -> Attachment:
    return attach(session, "g", bootstrap=NO_BROKER, metrics=metrics)  # type: ignore[arg-type]


def test_arguments_that_cannot_work_are_refused() -> None:
    with pytest.raises(GroupNameError):
        attach(ReportingSession(), " ")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="metrics"):
        _attach(ReportingSession(), metrics="nowhere")


def test_brokers_that_do_not_respond_are_logged_and_never_raised(caplog: pytest.LogCaptureFixture) -> None:
    session = ReportingSession()
    query = ReportingQuery(document=progress_document(kafka_source({"orders": {"0": 10}})))
    session.streams.active = [query]
    with caplog.at_level(logging.WARNING, LOGGER):
        with _attach(session) as attachment:
            assert len(session.streams.listeners) == 1
        assert session.streams.listeners == []
        assert attachment.rows == ()
    messages = [each.getMessage() for each in caplog.records]
    assert [each for each in messages if "lag_attempt_failed" in each and NO_BROKER in each], messages
    attachment.stop()  # a second stop does nothing


async def test_metrics_are_served() -> None:
    network, address = MemoryNetwork(), Address("driver", 9010)
    async with serving_metrics(_keeper(network), network, address, get_logger()):
        assert "tailrace_pipeline_commits_total 0.0" in await _scraped(network, address)
    with pytest.raises(OSError):
        await network.connect(address)


async def test_an_address_that_is_in_use_is_logged() -> None:
    network, address = MemoryNetwork(), Address("driver", 9010)
    async with serving_metrics(_keeper(network), network, address, get_logger()):
        with capture_logs() as logged:
            async with serving_metrics(_keeper(network), network, address, get_logger()):
                assert "commits_total" in await _scraped(network, address), "the first one serves"
    assert [each["event"] for each in logged] == ["lag_metrics_not_served"]


def test_a_session_that_refuses_listeners_is_attached_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object, listener: object) -> None:
        raise TypeError("cannot pickle")

    session = ReportingSession()
    monkeypatch.setattr(type(session.streams), "addListener", refuse)
    with _attach(session) as attachment:
        assert attachment.rows == ()


async def _nothing() -> Sight:
    await trio.lowlevel.checkpoint()
    return Sight()


def _keeper(network: MemoryNetwork) -> LagKeeper:
    spus = SpuClient(network, [Address("nowhere", 1)], BOOTSTRAP)
    return LagKeeper(_nothing, GroupPositions("g"), spus, SteadyClock(), get_logger())


async def _scraped(network: MemoryNetwork, address: Address) -> str:
    connection = await network.connect(address)
    await send_all(connection, b"GET /metrics HTTP/1.1\r\n\r\n")
    received, buffer = b"", memoryview(bytearray(1 << 16))
    while count := await receive_some(connection, buffer):
        received += buffer[:count]
    return received.decode()
