"""Chooses the servers that a command asks: the Streaming Controller (SC), or brokers through a bootstrap address.

1. A flag decides: `--sc` or `--bootstrap`, and not both. Only `tailrace status` takes both: it asks the SC, or
   brokers if the SC is away or not named.
2. Without a flag, `TAILRACE_BOOTSTRAP` decides for every command that a broker can answer, so that all of these
   commands act on the same cluster. `TAILRACE_SC` decides for the others.
3. Without both, the command asks the SC of `tailrace up` on this machine.

A command that only the SC can answer never falls back to that default if a bootstrap address is given: the SC there may
belong to another cluster.
"""

from collections.abc import Mapping, Sequence
from enum import Enum

from msgspec import Struct

from tailrace.runtime.network import Address
from tailrace.runtime.settings import parse_address
from tailrace.runtime.settings_sources import BOOTSTRAP_VARIABLE, SC_VARIABLE

SC_DEFAULT = "127.0.0.1:9003"


class Answerer(Enum):
    """The servers that can answer a command."""

    SC = "only the SC"
    EITHER = "the SC, or brokers"
    BOTH = "the SC, and brokers that the command finds by itself"


class ServerChoiceError(Exception):
    """The given addresses do not fit the command; the message is one sentence."""


class ServerChoice(Struct, frozen=True):
    """The servers to ask one after the other, until one responds."""

    are_brokers: bool
    """Whether the servers are brokers; otherwise they are an SC and its standbys."""
    addresses: Sequence[Address]


def choose_servers(
    sc: str | None, bootstrap: str | None, environment: Mapping[str, str], answerer: Answerer
) -> ServerChoice:
    """Chooses servers from the values of `--sc` and `--bootstrap` and from the environment.

    Raises ServerChoiceError and SettingsError.
    """
    if sc is not None and bootstrap is not None and answerer is not Answerer.BOTH:
        raise ServerChoiceError("--sc and --bootstrap name different kinds of servers: give only one of them")
    if sc is not None:
        return _servers(False, sc, "--sc")
    sc = environment.get(SC_VARIABLE)
    origin = "--bootstrap" if bootstrap is not None else BOOTSTRAP_VARIABLE
    if bootstrap is None:
        bootstrap = environment.get(BOOTSTRAP_VARIABLE) or None
    if bootstrap is not None:
        match answerer:
            case Answerer.EITHER:
                return _servers(True, bootstrap, origin)
            case Answerer.SC if not sc or origin == "--bootstrap":
                raise ServerChoiceError(
                    f"only the SC can answer this, and {origin} names brokers: name the SC of that cluster "
                    f"with --sc or {SC_VARIABLE}"
                )
    return _servers(False, sc or SC_DEFAULT, SC_VARIABLE)


def _servers(are_brokers: bool, given: str, origin: str) -> ServerChoice:
    return ServerChoice(are_brokers, addresses_of(given, origin))


def addresses_of(given: str, origin: str) -> list[Address]:
    """Reads `HOST:PORT[,HOST:PORT]`. `origin` is the flag or variable, for errors. Raises SettingsError."""
    return [parse_address(each.strip(), origin, port_min=1) for each in given.split(",")]
