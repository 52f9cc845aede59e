"""Tests what callers say about a run."""

from pathlib import Path

import pytest
from trigger_replicas import config
from worker_pools import function_in

from tailrace.pipeline.engine.engine_setup import given_function, given_servers
from tailrace.runtime.network import Address
from tailrace.runtime.settings import SettingsError
from tailrace.trigger.config.trigger_settings import TriggerConfigError
from tailrace.trigger.replica.replica_setup import ReplicaServers

FUNCTION = """
from tailrace.trigger import trigger

@trigger("orders", group="billing", event_timeout="5s")
def bill(context, event):
    pass
"""
ONE, TWO = Address("one", 1), Address("two", 2)


def test_settings_override_a_file_and_that_overrides_the_decorator(tmp_path: Path) -> None:
    path = function_in(tmp_path, FUNCTION).path
    yaml = tmp_path / "function.yaml"
    yaml.write_text("spec: {triggers: {t: {kind: kafka-cluster, attributes: {topics: [others], consumerGroup: g}}}}")
    found = given_function(path, str(yaml), {"group": "mine"})
    assert (found.config.topic, found.config.group, found.config.event_timeout) == ("others", "mine", 5.0)
    assert found.source.handler == "bill"


def test_a_wrong_setting_is_named(tmp_path: Path) -> None:
    with pytest.raises(TriggerConfigError, match="seek_to"):
        given_function(function_in(tmp_path, FUNCTION).path, settings={"seek_to": "middle"})


def test_servers_are_those_that_are_named_first() -> None:
    environment = {"TAILRACE_SC": "one:1", "TAILRACE_BOOTSTRAP": "two:2"}
    assert given_servers(None, None, config(), {}) == ReplicaServers((Address("127.0.0.1", 9003),))
    assert given_servers(None, None, config(), environment) == ReplicaServers((ONE,))
    assert given_servers(None, None, config(), {"TAILRACE_BOOTSTRAP": "two:2"}) == ReplicaServers((), (TWO,))
    assert given_servers("one:1, two:2", None, config(), {}) == ReplicaServers((), (ONE, TWO))
    assert given_servers(None, "two:2", config(brokers=("one:1",)), {}) == ReplicaServers((TWO,), (ONE,))
    with pytest.raises(SettingsError, match="bootstrap: 'nowhere' is not HOST:PORT"):
        given_servers("nowhere", None, config(), {})
