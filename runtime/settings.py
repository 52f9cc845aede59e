"""Where a server's settings come from: a TOML file, then the environment, then flags; the last one wins.

Every setting has one name. `public` is the flag `--public`, the environment variable `TAILRACE_PUBLIC`, and the line
`public = …` of the file; Kafka's own broker settings (`num.partitions`) stand in the file's table `[broker]`.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

from .network import Address

ENVIRONMENT_PREFIX = "TAILRACE_"


class SettingsError(Exception):
    """One sentence for the person who started the program: what is wrong, where, and what is allowed."""


@dataclass(frozen=True, slots=True)
class ListenerSettings:
    """Where clients connect, and what they are told to connect to."""

    name: str
    address: Address
    advertised: Address | None = None
    """None: the address that the client itself connected to, which is right from a host and from a container alike."""


@dataclass(frozen=True, slots=True)
class SpuSettings:
    """What one SPU is started with."""

    id: int
    data_directory: str
    listeners: tuple[ListenerSettings, ...]
    metrics: Address | None
    rack: str | None = None
    broker: Mapping[str, str] = field(default_factory=dict)
    """Kafka's broker settings by their Kafka names."""


def parse_address(text: str, where: str) -> Address:
    """`HOST:PORT`, `[V6HOST]:PORT`."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if not colon or not host or not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65535:
        raise SettingsError(f"{where}: {text!r} is not HOST:PORT with a port from 0 to 65535")
    return Address(host, int(port))


def read_file(path: str, text: bytes) -> dict[str, object]:
    """The settings of a TOML file, given its content."""
    try:
        return tomllib.loads(text.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{path}: not a TOML file: {error}") from error


def merge(
    names: frozenset[str], file: Mapping[str, object], environment: Mapping[str, str], flags: Mapping[str, object]
) -> dict[str, object]:
    """One value per name, from the last source that has it. A name that nobody knows is an error, not a silence."""
    unknown = sorted(set(file) - names)
    if unknown:
        raise SettingsError(f"the settings file has no setting {unknown[0]!r}; there are: {', '.join(sorted(names))}")
    merged = dict(file)
    for name in names:
        variable = ENVIRONMENT_PREFIX + name.upper().replace("-", "_")
        if variable in environment:
            merged[name] = environment[variable]
        if flags.get(name) is not None:
            merged[name] = flags[name]
    return merged


def default_data_directory(environment: Mapping[str, str]) -> str:
    """Under the user's data directory, as the XDG convention has it."""
    root = PurePath(environment.get("XDG_DATA_HOME", ""))
    if not root.is_absolute():  # a relative one counts for nothing: it would depend on where we were started
        root = PurePath(environment.get("HOME", ".")) / ".local" / "share"
    return str(root / "tailrace")
