import structlog
import trio
from simulation.files import SimulatedFiles
from simulation.network import MemoryNetwork

from tailrace.runtime.chance import RandomChance
from tailrace.runtime.seams import Seams
from tailrace.runtime.wall_clock import SystemClock
from tailrace.security.records.security_tables import SecurityTables
from tailrace.security.settings.sasl_settings import parse_sasl_settings
from tailrace.security.settings.setting_texts import SettingTexts
from tailrace.server.authentication.logins import Logins
from tailrace.server.server_metrics import LoginCounts


async def test_each_listener_has_its_own_mechanisms_and_plain_ones_have_none() -> None:
    texts = SettingTexts({"listener.name.other.sasl.server.max.receive.size": "1000"})
    listeners = {name: parse_sasl_settings(texts, name) for name in ("PUBLIC", "OTHER")}
    seams = Seams(MemoryNetwork(), SimulatedFiles(), SystemClock(), RandomChance())
    logins = Logins(listeners, SecurityTables(), seams, LoginCounts(), structlog.get_logger())
    assert logins.begin("PRIVATE") is None
    for name in listeners:
        login = logins.begin(name)
        assert login is not None and not login.is_open(trio.current_time())
        assert login.message_bytes_max == listeners[name].message_bytes_max
