import structlog
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from tailrace.security.sasl.sasl_steps import Refused
from tailrace.server.authentication.login_log import LoginLog
from tailrace.server.server_metrics import LoginCounts


async def test_an_address_gets_one_line_a_minute_and_every_failure_is_counted(autojump_clock: MockClock) -> None:
    with capture_logs() as logs:
        log = LoginLog(counts := LoginCounts(), structlog.get_logger())
        for host in ("a", "a", "a", "b"):
            log.on_refused(f"{host}:1", host, "PUBLIC", "PLAIN", Refused("the password is wrong", name="n" * 1000))
        await trio.sleep(61)
        log.on_refused("a:1", "a", "PUBLIC", "PLAIN", Refused("the password is wrong"))
    assert [(line["client"], line["attempts"]) for line in logs] == [("a:1", 1), ("b:1", 1), ("a:1", 3)]
    assert counts.failed_logins == 5
    assert len(logs[0]["user"]) == 100, "names from clients are not logged in full"
