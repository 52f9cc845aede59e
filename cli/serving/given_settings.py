"""Reads the settings of a server, from flags, environment and file, into typed values.

Every error names the setting, so that commands need not add it.
"""

import argparse
import math
import os
from collections.abc import Collection, Mapping, Sequence
from typing import overload

from msgspec.structs import replace

from tailrace.cluster.configs.broker_config_table import BROKER_CONFIGS
from tailrace.cluster.similar_names import similar
from tailrace.runtime.files import RealFiles
from tailrace.runtime.network import Address, is_loopback
from tailrace.runtime.settings import ListenerSettings, SettingsError, parse_address
from tailrace.runtime.settings_sources import (
    BROKER_PREFIX,
    CLIENT_VARIABLES,
    CONFIG_VARIABLE,
    ENVIRONMENT_PREFIX,
    TABLE,
    broker_configs_of,
    broker_variable_of,
    default_data_directory,
    merge,
    read_file,
    unknown_variables,
    variable_of,
)

from .listener_variables import listener_overrides

OFF = "off"
ALL_NAMES = frozenset(
    {"data", "public", "private", "metrics", "log-level", "log-format", "insecure"}
    | {"spus", "sc", "sc-private", "published", "topic", "ephemeral", "secure"}
    | {"store", "store-config", "reconciliation", "replace-after"}
    | {"id", "rack"}
)
"""The settings of all servers, which an environment file may set for several of them."""


class GivenSettings:
    """The merged settings, by name."""

    def __init__(
        self, merged: Mapping[str, object], pairs: list[str], variables: Mapping[str, str] | None = None
    ) -> None:
        """Takes the merged settings, the values NAME=VALUE of `--set`, and the broker configs of the environment."""
        self._merged = merged
        self._pairs = pairs
        self._variables = variables or {}

    def has(self, name: str) -> bool:
        """Whether the setting was given."""
        return name in self._merged

    @overload
    def text(self, name: str) -> str | None: ...
    @overload
    def text(self, name: str, default: str) -> str: ...
    def text(self, name: str, default: str | None = None) -> str | None:
        value = self._merged.get(name)
        if isinstance(value, list | dict) or "\0" in str(value):
            raise SettingsError(f"--{name} {value!r}: expected a single text")
        return default if value is None else str(value)

    def required(self, name: str, example: str) -> str:
        """Returns a setting as text. Raises SettingsError, with an example, if it is missing."""
        value = self._merged.get(name)
        if value is None:
            raise SettingsError(f"--{name} is missing: give {example}")
        return str(value)

    def one_of(self, name: str, allowed: Collection[str]) -> str | None:
        """Returns one of the allowed values. The parser checks flags, but not a file and the environment."""
        value = self.text(name)
        if value is not None and value not in allowed:
            raise SettingsError(f"--{name} {value}: expected one of {', '.join(sorted(allowed))}")
        return value

    def whole_number(self, name: str, minimum: int, maximum: int) -> int | None:
        """Returns a whole number within bounds; None if it is not given."""
        value = self.text(name)
        if value is None:
            return None
        if not (value.isascii() and value.isdecimal() and len(value) <= 10 and minimum <= int(value) <= maximum):
            raise SettingsError(f"--{name} {value}: expected a number from {minimum} to {maximum}")
        return int(value)

    def switch(self, name: str) -> bool:
        """Returns whether something is on; it is off if nothing is given."""
        value = (self.text(name) or "false").lower()
        if value not in ("true", "false"):
            raise SettingsError(f"--{name} {value}: expected true or false")
        return value == "true"

    def seconds(self, name: str, default: float) -> float:
        """Returns a number of seconds."""
        value = self.text(name)
        if value is None:
            return default
        try:
            seconds = float(value)
        except ValueError:
            seconds = math.nan
        if not 0 < seconds < math.inf:
            raise SettingsError(f"--{name} {value}: expected a number of seconds above 0")
        return seconds

    def texts(self, name: str) -> list[str]:
        """Returns several texts: a repeated flag, a list in a file, or texts divided by commas."""
        given = self._merged.get(name, [])
        each = given if isinstance(given, list) else [given]
        if not each:
            raise SettingsError(f"--{name}: the list is empty")
        return [text.strip() for entry in each for text in str(entry).split(",")]

    def addresses(self, name: str) -> tuple[Address, ...]:
        """Returns addresses to connect to."""
        return tuple(parse_address(text, f"--{name}", port_min=1) for text in self.texts(name))

    def listeners(self, *default: ListenerSettings) -> tuple[ListenerSettings, ...]:
        """Returns the listeners for clients, which are called PUBLIC, PUBLIC_1, PUBLIC_2 and so on."""
        if not self.has("public"):
            return tuple(replace(each, flag="--public") for each in default)
        return tuple(
            _listener(f"PUBLIC_{number}" if number else "PUBLIC", text, "--public")
            for number, text in enumerate(self.texts("public"))
        )

    def listener(self, name: str, default: ListenerSettings) -> ListenerSettings:
        """Returns another listener, with the name of the default."""
        text = self.text(name)
        return replace(default, flag=f"--{name}") if text is None else _listener(default.name, text, f"--{name}")

    def published(self, listeners: Sequence[ListenerSettings]) -> Address | None:
        """Returns the address at which the port of this container is published, or None if it is not given.

        Raises SettingsError if no client could ever be told the address.
        """
        text = self.text("published")
        if text is None:
            return None
        published = parse_address(text, "--published", port_min=1)
        plain = [each for each in listeners if each.advertised is None]
        if not plain:
            raise SettingsError(f"--published {text} has no effect, because each --public names an address after a '='")
        if all(is_loopback(each.address.host) for each in plain):
            raise SettingsError(
                f"--published {text} has no effect, because this server listens only for local clients; "
                f"add, for example, --public 0.0.0.0:9092"
            )
        return published

    def metrics_listener(self, default: Address) -> ListenerSettings | None:
        """Returns the listener for Prometheus; None if it is off."""
        if self.text("metrics") == OFF:
            return None
        return self.listener("metrics", ListenerSettings("METRICS", default, may_move=True))

    def data_directory(self) -> str:
        """Returns the absolute path of the data directory."""
        given = self.text("data")
        if given == "":
            raise SettingsError("--data: the path is empty; leave the option out for the usual directory")
        path = os.path.abspath(default_data_directory(os.environ) if given is None else given)
        if os.path.exists(path) and not os.path.isdir(path):
            raise SettingsError(f"--data {path}: this is a file; choose a directory")
        return path

    def broker_settings(self) -> dict[str, str]:
        """Returns the broker configs from the file, the environment and `--set`."""
        table = self._merged.get(TABLE, {})
        if not isinstance(table, dict):
            raise SettingsError("the settings file: [broker] must be a table of Kafka's broker settings")
        for name, value in table.items():
            if isinstance(value, dict):  # as TOML reads num.partitions = 3
                raise SettingsError(
                    f'the settings file: [broker] {name}: put names in quotes, as in "num.partitions" = 3'
                )
        broker = {
            str(name): str(value).lower() if isinstance(value, bool) else str(value) for name, value in table.items()
        }
        broker.update(self._variables)
        for entry in self._pairs:
            name, equals, value = entry.partition("=")
            if not equals:
                raise SettingsError(f"--set {entry}: expected NAME=VALUE, such as num.partitions=3")
            broker[name.strip()] = value.strip()
        return broker


def given_settings(names: Collection[str], arguments: argparse.Namespace) -> GivenSettings:
    """Merges the parsed flags, the environment, and the file of `--config`."""
    known = frozenset(names) | {TABLE}
    file: dict[str, object] = {}
    path = arguments.config or os.environ.get(CONFIG_VARIABLE)
    if path:
        file = read_file(path, content_of(path))
    flags = {name: getattr(arguments, name.replace("-", "_"), None) for name in names}
    for variable in unknown_broker_variables(os.environ):
        raise SettingsError(about_unknown(variable))
    variables = broker_configs_of(os.environ, (*BROKER_CONFIGS, *listener_overrides(os.environ)))
    return GivenSettings(merge(known, file, os.environ, flags), arguments.set, variables)


def content_of(path: str) -> bytes:
    """Reads a settings file. Raises SettingsError."""
    try:
        return RealFiles(read_only=True).read(path)
    except OSError as error:
        raise SettingsError(f"--config {path}: {error.strerror}") from error


def unknown_broker_variables(environment: Mapping[str, str]) -> list[str]:
    """Returns the environment variables that would set broker configs that do not exist."""
    return [each for each in unknown_variables(environment, _variables(environment)) if each.startswith(BROKER_PREFIX)]


def ineffective_variables(environment: Mapping[str, str]) -> list[str]:
    """Returns the other environment variables that look like settings of Tailrace and have no effect."""
    return [
        each for each in unknown_variables(environment, _variables(environment)) if not each.startswith(BROKER_PREFIX)
    ]


def about_unknown(variable: str) -> str:
    """Says that an environment variable sets nothing, and which one was perhaps meant."""
    kind, prefix = "setting", ENVIRONMENT_PREFIX
    if variable.startswith(BROKER_PREFIX):
        kind, prefix = "broker config", BROKER_PREFIX
    # All have the prefix in common, so it says nothing about what is similar.
    names = [each.removeprefix(prefix) for each in _variables({}) if each.startswith(prefix)]
    close = similar(variable.removeprefix(prefix), names)
    return f"{variable}: there is no such {kind}" + ("" if close is None else f"; did you mean {prefix}{close}?")


def _variables(environment: Mapping[str, str]) -> list[str]:
    """Returns all environment variables that are settings of a server or a client.

    Of the settings of single listeners, they are those that are in the environment.
    """
    overrides = listener_overrides(environment)
    settings = map(variable_of, sorted(ALL_NAMES))
    return [*settings, CONFIG_VARIABLE, *CLIENT_VARIABLES, *map(broker_variable_of, (*BROKER_CONFIGS, *overrides))]


def _listener(name: str, text: str, where: str) -> ListenerSettings:
    address, equals, advertised = text.partition("=")
    told = parse_address(advertised, where, port_min=1) if equals else None
    return ListenerSettings(name, parse_address(address, where), told, flag=where)
