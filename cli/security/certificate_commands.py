"""`tailrace certificate make | show | renew`: certificates for people who have no certificate authority.

The commands work on files and ask no server. A server takes over a renewed file by itself.
"""

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tailrace.cli.output.tables import fields
from tailrace.runtime.files import RealFiles
from tailrace.runtime.wall_clock import SystemClock
from tailrace.security.identity.server_names import SC_NAME, spu_name

if TYPE_CHECKING:
    from tailrace.security.certificates.certificate_facts import CertificateFacts

DONE, REFUSED, WRONG_FILE = 0, 1, 2
DAYS_MAX = 36_500
LOCAL_SPUS = 16
"""How many SPUs the certificate of a server without an id is for, as `tailrace up` runs them."""
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")


class _Make:
    """`tailrace certificate make`."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("directory", metavar="DIR", help="Directory of the authority and the certificates.")
        kind = parser.add_mutually_exclusive_group()
        kind.add_argument("--spu", metavar="ID", type=_spu_id, help="Make the certificate of this SPU: spu-ID.pem.")
        kind.add_argument(
            "--sc", action="store_true", help="Make the certificate of the Streaming Controller and standbys: sc.pem."
        )
        kind.add_argument("--user", metavar="NAME", help="Make the certificate of a client: NAME.pem.")
        parser.add_argument(
            "--host",
            metavar="HOST",
            action="append",
            default=[],
            help="Name or address at which clients reach the server; may be repeated.",
        )
        parser.add_argument("--days", metavar="N", type=_days, help="How long it is valid (default: 365).")

    def run(self, arguments: argparse.Namespace) -> int:
        return _guarded("make", lambda: _make(arguments))


class _Show:
    """`tailrace certificate show`."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", help="PEM file with certificates. Keys in it are not shown.")
        parser.add_argument(
            "--output", "-o", choices=("table", "json"), default="table", help="Output format (default: table)."
        )

    def run(self, arguments: argparse.Namespace) -> int:
        return _guarded("show", lambda: _show(arguments.file, as_json=arguments.output == "json"))


class _Renew:
    """`tailrace certificate renew`."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", nargs="+", help="PEM files that `certificate make` has written.")
        parser.add_argument(
            "--authority", metavar="DIR", help="Directory of the authority (default: that of the first file)."
        )
        parser.add_argument("--days", metavar="N", type=_days, help="How long they are valid (default: 365).")

    def run(self, arguments: argparse.Namespace) -> int:
        return _guarded("renew", lambda: _renew(arguments))


COMMANDS = {"make": _Make(), "show": _Show(), "renew": _Renew()}


def _make(arguments: argparse.Namespace) -> None:
    # Imported here because the library is large, and the help needs none of it.
    from tailrace.security.certificates.certificate_making import (
        CLIENT_DAYS,
        SERVER_DAYS,
        CertificateError,
        make_authority,
        make_client_certificate,
        make_server_certificate,
    )

    from .certificate_files import AUTHORITY, CertificateFiles

    files, now_ms = CertificateFiles(arguments.directory, RealFiles()), SystemClock().now_ms()
    name, hosts = _names(arguments)
    if arguments.user is not None and arguments.host:
        raise CertificateError("--host has no effect with --user: the certificate of a client names no host")
    path = files.path(f"{name}.pem")
    if "/" in name or name in ("ca", "ca-key"):
        raise CertificateError(f"{name!r} cannot be the name of a file here")
    if os.path.exists(path):
        raise CertificateError(f"{path} exists: renew it with `tailrace certificate renew {path}`, or remove it first")
    if not files.has_authority:
        files.save_authority(make_authority(f"Tailrace authority of {platform.node()}", now_ms))
        print(f"Made an authority: {files.path(AUTHORITY)}. Servers and clients have to trust it.")
    authority = files.authority()
    if arguments.user is not None:
        content = make_client_certificate(authority, name, now_ms, arguments.days or CLIENT_DAYS)
    else:
        content = make_server_certificate(authority, name, hosts, now_ms, arguments.days or SERVER_DAYS)
    files.save(path, content)
    print(f"Made {path}, a private key with its certificate.")
    if arguments.user is None:
        print(
            f"Settings of the server: ssl.keystore.location={path} "
            f"ssl.truststore.location={files.path(AUTHORITY)} listener.security.protocol.map=PUBLIC:SSL,PRIVATE:SSL"
        )


def _names(arguments: argparse.Namespace) -> tuple[str, Sequence[str]]:
    """Returns the name of the certificate, and the hosts and servers that it is for."""
    if arguments.user is not None:
        return str(arguments.user), ()
    if arguments.spu is not None:
        return f"spu-{arguments.spu}", (spu_name(arguments.spu), *(arguments.host or _own_hosts()))
    if arguments.sc:
        return "sc", (SC_NAME, *(arguments.host or _own_hosts()))
    servers = (SC_NAME, *(spu_name(each) for each in range(1, LOCAL_SPUS + 1)))
    return "server", (*servers, *(arguments.host or _own_hosts()))


def _own_hosts() -> list[str]:
    own = platform.node()
    return [*_LOCAL_HOSTS, *([own] if own not in _LOCAL_HOSTS else [])]


def _show(path: str, *, as_json: bool) -> None:
    from tailrace.security.certificates.certificate_facts import certificate_facts

    found = certificate_facts(RealFiles(read_only=True).read(path))
    now_ms = SystemClock().now_ms()
    if as_json:
        documents = [_document(each, now_ms) for each in found]
        print(json.dumps(documents, indent=2))
        return
    print("\n\n".join(fields(_shown(each, now_ms)) for each in found))


def _document(facts: "CertificateFacts", now_ms: int) -> dict[str, object]:
    return {
        "name": facts.name,
        "issuer": facts.issuer,
        "hosts": list(facts.hosts),
        "isAuthority": facts.is_authority,
        "validFrom": _time(facts.valid_from_ms),
        "validTo": _time(facts.valid_to_ms),
        "daysLeft": facts.days_left(now_ms),
        "serial": facts.serial,
        "sha256": facts.fingerprint,
    }


def _shown(facts: "CertificateFacts", now_ms: int) -> list[tuple[str, object]]:
    left = facts.days_left(now_ms)
    rest = "has expired" if left < 0 else f"{left} days left"
    return [
        ("name", facts.name),
        ("issuer", facts.issuer),
        ("kind", "authority" if facts.is_authority else "server or client"),
        ("hosts", ", ".join(facts.hosts) or "-"),
        ("valid from", _time(facts.valid_from_ms)),
        ("valid to", f"{_time(facts.valid_to_ms)} ({rest})"),
        ("serial", facts.serial),
        ("sha256", facts.fingerprint),
    ]


def _renew(arguments: argparse.Namespace) -> None:
    from tailrace.security.certificates.certificate_facts import certificate_facts
    from tailrace.security.certificates.certificate_making import (
        CLIENT_DAYS,
        SERVER_DAYS,
        CertificateError,
        make_client_certificate,
        make_server_certificate,
    )

    from .certificate_files import CertificateFiles

    directory = arguments.authority or os.path.dirname(arguments.file[0]) or "."
    files, now_ms = CertificateFiles(directory, RealFiles()), SystemClock().now_ms()
    if not files.has_authority:
        raise CertificateError(f"{directory} has no authority that `certificate make` has made: give --authority DIR")
    authority = files.authority()
    for path in arguments.file:
        facts = certificate_facts(RealFiles(read_only=True).read(path))[0]
        if facts.is_authority:
            raise CertificateError(f"{path} is an authority: make a new one, and let servers trust both for a while")
        if facts.hosts:
            days = arguments.days or SERVER_DAYS
            content = make_server_certificate(authority, facts.name, facts.hosts, now_ms, days)
        else:
            content = make_client_certificate(authority, facts.name, now_ms, arguments.days or CLIENT_DAYS)
        files.save(path, content)
        print(f"Renewed {path}: it is valid for {certificate_facts(content)[0].days_left(now_ms) + 1} days.")


def _guarded(command: str, act: Callable[[], None]) -> int:
    """Carries out a command, and says in one sentence why it cannot be done."""
    from tailrace.security.certificates.certificate_making import CertificateError

    try:
        act()
    except CertificateError as error:
        print(f"tailrace certificate {command}: {error}", file=sys.stderr)
        return REFUSED
    except OSError as error:
        print(f"tailrace certificate {command}: {error.filename}: {error.strerror}", file=sys.stderr)
        return WRONG_FILE
    return DONE


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _spu_id(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**31:
        raise argparse.ArgumentTypeError(f"{text!r} is not the id of an SPU")
    return int(text)


def _days(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= DAYS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days from 1 to {DAYS_MAX}")
    return int(text)
