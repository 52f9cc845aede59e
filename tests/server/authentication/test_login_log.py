import structlog
import trio
from audit_logs import disk, opened
from spus import SteadyClock
from structlog.testing import capture_logs
from trio.testing import MockClock

from tailrace.security.identity.principal import Principal
from tailrace.security.sasl.sasl_steps import Refused
from tailrace.server.auditing.audit_trail import AuditTrail
from tailrace.server.authentication.login_log import LoginLog
from tailrace.server.request_context import ClientIdentity
from tailrace.server.server_metrics import LoginCounts


async def test_an_address_gets_one_line_a_minute_and_every_failure_is_counted(autojump_clock: MockClock) -> None:
    with capture_logs() as logs:
        log = LoginLog(counts := LoginCounts(), structlog.get_logger())
        for host in ("a", "a", "a", "b"):
            log.on_refused(
                ClientIdentity(f"{host}:1", host=host),
                "PUBLIC",
                "PLAIN",
                Refused("the password is wrong", name="n" * 1000),
            )
        await trio.sleep(61)
        log.on_refused(ClientIdentity("a:1", host="a"), "PUBLIC", "PLAIN", Refused("the password is wrong"))
    assert [(line["client"], line["attempts"]) for line in logs] == [("a:1", 1), ("b:1", 1), ("a:1", 3)]
    assert counts.failed_logins == 5
    assert len(logs[0]["user"]) == 100, "names from clients are not logged in full"


async def test_the_audit_log_gets_logins_and_failures(autojump_clock: MockClock) -> None:
    files = disk()
    trail = AuditTrail(await opened(files), SteadyClock(), structlog.get_logger())
    client = ClientIdentity("192.0.2.1:5", host="192.0.2.1")
    async with trio.open_nursery() as nursery:
        await nursery.start(trail.run)
        log = LoginLog(LoginCounts(), structlog.get_logger(), trail)
        log.on_refused(client, "PUBLIC", "SCRAM-SHA-256", Refused("the password is wrong", name="alice"))
        client.principal, client.mechanism = Principal("User", "alice"), "PLAIN"
        log.on_succeeded(client, is_again=False)
        nursery.cancel_scope.cancel()
    text = "".join(files.read(path).decode() for path in files.paths() if path.endswith(".log"))
    assert '"outcome":"failed","principal":"User:ANONYMOUS","address":"192.0.2.1","mechanism":"SCRAM-SHA-256"' in text
    assert '"resource":"USER:alice","why":"the password is wrong"' in text
    assert '"outcome":"allowed","principal":"User:alice","address":"192.0.2.1","mechanism":"PLAIN"' in text
