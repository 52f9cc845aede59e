from pathlib import Path

import structlog
import trio
from sasl_samples import ec_jwk, key_set, rsa_jwk
from structlog.testing import capture_logs
from trio.testing import MockClock

from tailrace.runtime.files import RealFiles
from tailrace.server.authentication.bearer_key_source import KEY_SET_BYTES_MAX, BearerKeySource
from tailrace.server.authentication.login_log import LoginLog
from tailrace.server.server_metrics import LoginCounts


async def _refuse(url: str) -> bytes:
    raise OSError(f"{url} is not reachable")


def source(url: str, max_age_seconds: float = 3600.0) -> BearerKeySource:
    return BearerKeySource(url, max_age_seconds, RealFiles(), _refuse, LoginLog(LoginCounts(), structlog.get_logger()))


async def test_keys_are_read_from_a_file_and_again_when_they_are_old(autojump_clock: MockClock, tmp_path: Path) -> None:
    path = tmp_path / "a b.json"
    path.write_bytes(key_set(rsa_jwk()))
    keys = source(path.as_uri(), 60.0)
    await keys.refresh()
    assert keys.current.find("first", "RS256") is not None
    path.write_bytes(key_set(ec_jwk()))
    await trio.sleep(59)
    await keys.refresh()
    assert keys.current.find("second", "ES256") is None
    await trio.sleep(1)
    await keys.refresh()
    assert keys.current.find("second", "ES256") is not None


async def test_a_missing_key_makes_it_look_again_but_not_often(autojump_clock: MockClock, tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(key_set(rsa_jwk()))
    keys = source(path.as_uri())
    await keys.refresh()
    path.write_bytes(key_set(ec_jwk()))
    await keys.refresh(is_missing_a_key=True)
    assert keys.current.find("second", "ES256") is None
    await trio.sleep(10)
    await keys.refresh(is_missing_a_key=True)
    assert keys.current.find("second", "ES256") is not None


async def test_unreadable_keys_are_logged_and_the_last_ones_stay(autojump_clock: MockClock, tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(key_set(rsa_jwk()))
    keys = source(path.as_uri(), 1.0)
    await keys.refresh()
    for broken in (b"[]", b" " * (KEY_SET_BYTES_MAX + 1)):
        path.write_bytes(broken)
        await trio.sleep(2)
        with capture_logs() as logs:
            await keys.refresh()
        assert [line["event"] for line in logs] == ["key_set_unreadable"]
        assert len(keys.current) == 1


async def test_a_url_that_cannot_be_read_is_logged(autojump_clock: MockClock) -> None:
    with capture_logs() as logs:
        keys = source("https://keys.example/")
        await keys.refresh()
        await keys.refresh()
    assert len(logs) == 1 and "not reachable" in logs[0]["reason"]
    assert len(keys.current) == 0
