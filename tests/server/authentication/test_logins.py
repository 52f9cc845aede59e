import threading
from collections.abc import Mapping

import pytest
import structlog
import trio
import trio.testing
from simulation.files import SimulatedFiles
from simulation.network import MemoryNetwork

from tailrace.runtime.chance import RandomChance
from tailrace.runtime.seams import Seams
from tailrace.runtime.wall_clock import SystemClock
from tailrace.security.records.security_tables import SecurityTables
from tailrace.security.settings.sasl_settings import SaslSettings, parse_sasl_settings
from tailrace.security.settings.setting_texts import SettingTexts
from tailrace.server.authentication.logins import Logins
from tailrace.server.server_metrics import LoginCounts


def _logins(listeners: Mapping[str, SaslSettings]) -> Logins:
    seams = Seams(MemoryNetwork(), SimulatedFiles(), SystemClock(), RandomChance())
    return Logins(listeners, SecurityTables(), seams, LoginCounts(), structlog.get_logger())


async def test_each_listener_has_its_own_mechanisms_and_plain_ones_have_none() -> None:
    texts = SettingTexts({"listener.name.other.sasl.server.max.receive.size": "1000"})
    listeners = {name: parse_sasl_settings(texts, name) for name in ("PUBLIC", "OTHER")}
    logins = _logins(listeners)
    assert logins.begin("PRIVATE") is None
    for name in listeners:
        login = logins.begin(name)
        assert login is not None and not login.is_open(trio.current_time())
        assert login.message_bytes_max == listeners[name].message_bytes_max


async def test_keys_are_downloaded_beside_the_work_for_passwords() -> None:
    logins = _logins({})
    goes_on = threading.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(logins._worker.run, goes_on.wait)
        await trio.testing.wait_all_tasks_blocked()
        try:
            with trio.fail_after(10), pytest.raises(OSError, match="refused"):
                await logins._download("https://127.0.0.1:1/keys")
        finally:
            goes_on.set()
