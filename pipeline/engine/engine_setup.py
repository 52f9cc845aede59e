"""Reads what a caller says about a run: the function's file, its configuration, settings, and servers."""

import os
from collections.abc import Mapping

from msgspec import Struct

from tailrace.runtime.network import Address
from tailrace.runtime.settings import parse_address
from tailrace.runtime.settings_sources import BOOTSTRAP_VARIABLE, SC_VARIABLE
from tailrace.trigger.config.function_yaml import read_function_yaml
from tailrace.trigger.config.trigger_config import TriggerConfig
from tailrace.trigger.config.trigger_settings import Given, merge_layers
from tailrace.trigger.functions.function_loader import load
from tailrace.trigger.functions.function_source import FunctionSource, read_source, source_of
from tailrace.trigger.replica.replica_setup import ReplicaServers

SC_DEFAULT = "127.0.0.1:9003"
NO_SETTINGS: Mapping[str, object] = {}


class GivenFunction(Struct, frozen=True):
    """A function with its configuration."""

    config: TriggerConfig
    source: FunctionSource


def given_function(file: str, config: str | None = None, settings: Mapping[str, object] = NO_SETTINGS) -> GivenFunction:
    """Loads the function in `FILE` or `FILE:NAME`, and merges its settings.

    `config` is a file in Nuclio's shape. `settings` override everything else, and have the names of `@trigger`. Raises
    FunctionLoadError and TriggerConfigError.
    """
    function = load(source_of(file))
    layers = [function.declared]
    if config is not None:
        text = read_source(FunctionSource(os.path.abspath(config)))
        layers.append(read_function_yaml(text, config, environment=os.environ).layer)
    layers.append({name: Given(value, name) for name, value in settings.items()})
    return GivenFunction(merge_layers(layers, origin=function.place), function.source)


def given_servers(
    bootstrap: str | None, sc: str | None, config: TriggerConfig, environment: Mapping[str, str] = os.environ
) -> ReplicaServers:
    """Returns the servers that are named here, by the configuration or by the environment, or else the SC of
    `tailrace up`.

    Brokers that are named without an SC may be Apache Kafka. Raises SettingsError.
    """
    of_sc = sc or environment.get(SC_VARIABLE)
    brokers = bootstrap or ",".join(config.brokers) or (None if of_sc else environment.get(BOOTSTRAP_VARIABLE))
    if not of_sc and not brokers:
        of_sc = SC_DEFAULT
    return ReplicaServers(_addresses(of_sc, "sc"), _addresses(brokers, "bootstrap"))


def _addresses(text: str | None, origin: str) -> tuple[Address, ...]:
    return tuple(parse_address(each.strip(), origin, port_min=1) for each in (text or "").split(",") if each.strip())
