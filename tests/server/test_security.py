import pytest
import structlog
from certificates import server_certificate
from simulation.files import SimulatedFiles

from tailrace.runtime.settings import SettingsError
from tailrace.server.security import OPEN, load_server_security

LISTENERS = ("PUBLIC", "PUBLIC_1", "PRIVATE")


async def test_only_listeners_that_are_not_plain_are_loaded() -> None:
    files = SimulatedFiles()
    await files.replace("/server.pem", server_certificate())
    given = {"listener.security.protocol.map": "PUBLIC:SSL", "ssl.keystore.location": "/server.pem"}
    security = load_server_security(given, LISTENERS, files, structlog.get_logger())
    assert set(security.listeners) == {"PUBLIC", "PUBLIC_1"}
    assert security.listener("PUBLIC_1").tls is not None
    assert security.listener("PRIVATE").protocol == "PLAINTEXT"


def test_a_server_without_settings_is_open() -> None:
    assert load_server_security({}, LISTENERS, SimulatedFiles(), structlog.get_logger()) is OPEN


def test_a_missing_certificate_is_refused() -> None:
    with pytest.raises(SettingsError, match="has no certificate"):
        load_server_security(
            {"listener.security.protocol.map": "PUBLIC:SSL"}, LISTENERS, SimulatedFiles(), structlog.get_logger()
        )
