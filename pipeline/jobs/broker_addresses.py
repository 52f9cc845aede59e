"""Reads which brokers a job asks, and other addresses of servers that an argument names."""

import os
import re

from tailrace.runtime.network import Address
from tailrace.runtime.settings import parse_address
from tailrace.runtime.settings_sources import BOOTSTRAP_VARIABLE

BOOTSTRAP_DEFAULT = "127.0.0.1:9092"
BROKERS_OPTION = "kafka.bootstrap.servers"
"""The option of Spark's Kafka source that names brokers."""
_PROTOCOL = re.compile(r"^[\w.%-]*://")


def addresses_of(text: str, where: str) -> list[Address]:
    """Returns the addresses of `HOST:PORT,HOST:PORT`. Raises SettingsError, which says where the text is from."""
    return [parse_address(each.strip(), where, port_min=1) for each in text.split(",")]


def addresses_in_option(text: str) -> list[Address]:
    """Returns the addresses of Kafka's option `bootstrap.servers`, which may name protocols and have empty elements.

    Raises SettingsError.
    """
    servers = [_PROTOCOL.sub("", each.strip()) for each in text.split(",") if each.strip()]
    return addresses_of(",".join(servers), BROKERS_OPTION)


def parse_brokers(bootstrap: str | None) -> list[Address]:
    """Returns the addresses of brokers: those given, or those of the environment, or the default.

    Raises SettingsError.
    """
    return chosen_brokers(bootstrap) or addresses_of(BOOTSTRAP_DEFAULT, "bootstrap")


def chosen_brokers(bootstrap: str | None) -> list[Address] | None:
    """Returns the addresses of brokers: those given, or those of the environment; None if there are none.

    Raises SettingsError.
    """
    text = bootstrap or os.environ.get(BOOTSTRAP_VARIABLE)
    return addresses_of(text, "bootstrap" if bootstrap else BOOTSTRAP_VARIABLE) if text else None
