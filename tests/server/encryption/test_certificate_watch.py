"""Certificates that expire soon are said in the log, in metrics and to `tailrace doctor`."""

import pytest
import structlog
import trio
from certificates import UNKNOWN_KIND, WRONG_ADDRESS, malformed_authority
from simulation.files import SimulatedFiles
from spus import SteadyClock
from structlog.testing import capture_logs
from tls_listeners import server_tls

from tailrace.security.certificates.certificate_making import Authority, make_authority, make_server_certificate
from tailrace.server.encryption.certificate_watch import CHECK_SECONDS, CertificateWatch, first_to_expire
from tailrace.server.encryption.server_tls import TlsMaterial

DAY_MS = 86_400_000
NOW = 1_700_000_000_000
AUTHORITY = make_authority("authority", NOW, 100)


def _server(days: int, authority: Authority = AUTHORITY) -> bytes:
    return make_server_certificate(authority, "server", ("localhost",), NOW, days)


def _first(certificate: bytes, trusted: bytes = b"") -> tuple[str, int] | None:
    facts = first_to_expire(TlsMaterial(certificate, trusted.decode()))
    return None if facts is None else (facts.name, facts.days_left(NOW))


def test_the_authority_counts_if_it_expires_first() -> None:
    old, other = make_authority("authority", NOW, 3), make_authority("other", NOW, 2)
    assert _first(_server(90)) == ("server", 90)
    assert _first(_server(200)) == ("authority", 100)
    alone = _server(200).removesuffix(AUTHORITY.certificate)
    assert _first(alone) == ("server", 200)
    assert _first(alone, AUTHORITY.certificate + old.certificate + other.certificate) == ("authority", 100)
    assert _first(b"nothing") is None


@pytest.mark.parametrize("names", [WRONG_ADDRESS, UNKNOWN_KIND])
async def test_a_trusted_certificate_that_cannot_be_read_ends_nothing(
    autojump_clock: trio.testing.MockClock, names: bytes
) -> None:
    """The library of TLS accepts such a certificate, so that the server runs with it."""
    files = SimulatedFiles()
    await files.replace("/server.pem", _server(200).removesuffix(AUTHORITY.certificate))
    await files.replace("/ca.pem", malformed_authority(names) + "# Behörde\n".encode("latin-1") + AUTHORITY.certificate)
    watch = CertificateWatch({"PUBLIC": server_tls(files)}, SteadyClock(NOW + 90 * DAY_MS), structlog.get_logger())
    assert watch.expiries() == {"PUBLIC": NOW + 100 * DAY_MS}
    with capture_logs() as logs, trio.move_on_after(1):
        await watch.run()
    assert [(each["event"], each["certificate"]) for each in logs] == [("certificate_expires", "authority")]


async def test_the_log_warns_daily_until_the_certificate_is_renewed(autojump_clock: trio.testing.MockClock) -> None:
    files, clock = SimulatedFiles(), SteadyClock(NOW)
    for path in ("/server.pem", "/ca.pem"):
        await files.replace(path, _server(10) if path == "/server.pem" else AUTHORITY.certificate)
    tls = server_tls(files)
    watch = CertificateWatch({"PUBLIC": tls, "METRICS": tls}, clock, structlog.get_logger())
    assert watch.expiries() == dict.fromkeys(("PUBLIC", "METRICS"), NOW + 10 * DAY_MS)
    with capture_logs() as logs:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch.run)
            await trio.sleep(1)
            clock.time_ms += 11 * DAY_MS
            await trio.sleep(CHECK_SECONDS)
            clock.time_ms = NOW
            await files.replace("/server.pem", _server(90))
            await trio.sleep(CHECK_SECONDS)
            nursery.cancel_scope.cancel()
    said = [each for each in logs if each["event"] != "certificate_reloaded"]
    assert [(each["event"], each.get("days_left")) for each in said] == [
        ("certificate_expires", 10),
        ("certificate_expired", None),
    ]
    assert (said[0]["certificate"], said[0]["listeners"]) == ("server", ["PUBLIC", "METRICS"])
    assert watch.expiries()["PUBLIC"] == NOW + 90 * DAY_MS
