"""Describes a server for `tailrace doctor`: its clock, versions, addresses, and what it uses of its machine."""

import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from tailrace import __version__
from tailrace.protocol.internal.describe_server import (
    DescribeServerResponse,
    Library,
    ServerCertificate,
    ServerListener,
)
from tailrace.runtime.files import Files
from tailrace.runtime.machine import memory_bytes_max, memory_used_bytes, open_descriptors
from tailrace.runtime.network import Address
from tailrace.runtime.wall_clock import WallClock

if TYPE_CHECKING:
    from tailrace.server.encryption.certificate_watch import ListenerCertificate

UNKNOWN = -1
LIBRARIES = (
    "trio",
    "msgspec",
    "structlog",
    "crc32c",
    "cramjam",
    "h11",
    "prometheus-client",
    "pyyaml",
    "google-re2",
    "cryptography",
    "pyjwt",
)
"""The libraries that a server runs with."""


def describe_server(
    spu_id: int,
    cluster_id: str,
    listeners: Sequence[tuple[str, Address]],
    data_directory: str,
    files: Files,
    wall_clock: WallClock,
    certificates: "Sequence[ListenerCertificate]" = (),
) -> DescribeServerResponse:
    """Describes the server in this process. `listeners` are the names and addresses on which it listens for clients.

    `certificates` are those of its encrypted listeners that expire first.
    """
    total, free = _disk(data_directory, files)
    limit = files.descriptors_max()
    return DescribeServerResponse(
        spu_id,
        cluster_id,
        wall_clock.now_ms(),
        __version__,
        platform.python_version(),
        [Library(name, found) for name in LIBRARIES if (found := _version(name))],
        [ServerListener(name, address.host, address.port) for name, address in listeners],
        _or_unknown(open_descriptors()),
        _or_unknown(limit),
        _or_unknown(memory_used_bytes()),
        _or_unknown(memory_bytes_max()),
        data_directory,
        total,
        free,
        certificates=[
            ServerCertificate(each.listener, each.facts.name, each.facts.is_authority, each.facts.valid_to_ms)
            for each in certificates
        ],
    )


def _or_unknown(number: int | None) -> int:
    return UNKNOWN if number is None else number


def _disk(data_directory: str, files: Files) -> tuple[int, int]:
    if not data_directory:
        return UNKNOWN, UNKNOWN
    try:
        return files.free_bytes(data_directory)
    except OSError:
        return UNKNOWN, UNKNOWN


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
