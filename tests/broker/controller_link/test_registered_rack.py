import pytest
import structlog
from spus import running_spu
from structlog.testing import capture_logs

from tailrace.broker.controller_link.registered_rack import RegisteredRack
from tailrace.cluster.configs.broker_configs import BrokerConfigs


def _warnings(given: str | None, *registered: str | None) -> list[tuple[object, object]]:
    rack = RegisteredRack(given, BrokerConfigs({}), structlog.get_logger())
    with capture_logs() as logged:
        for each in registered:
            rack.on_registered(each)
    assert all((entry["event"], entry["log_level"]) == ("rack_ignored", "warning") for entry in logged)
    return [(entry["given"], entry["registered"]) for entry in logged]


@pytest.mark.parametrize("given", [None, "a"])
def test_nothing_is_said_of_the_same_rack_or_of_none(given: str | None) -> None:
    assert _warnings(given, "a", "a") == []


def test_both_are_named_where_they_differ_and_once_each() -> None:
    assert _warnings("a", None, None) == [("a", None)]
    assert _warnings("a", "b", "b", "a", "c", "c") == [("a", "b"), ("a", "c")]


async def test_clients_and_tools_see_the_rack_of_the_registration(autojump_clock: object) -> None:
    with capture_logs() as logged:
        async with running_spu(rack="a", registered_rack="b") as running:
            assert running.spu.broker_configs.value("broker.rack") == "b"
            assert running.spu.cluster.spus[running.spu.id].rack == "b"
    assert [(entry["given"], entry["registered"]) for entry in logged if entry["event"] == "rack_ignored"] == [
        ("a", "b")
    ]
