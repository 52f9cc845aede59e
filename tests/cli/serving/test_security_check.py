import pytest

from tailrace.cli.serving.security_check import check_security
from tailrace.runtime.network import Address
from tailrace.runtime.settings import ListenerSettings, SettingsError

PUBLIC = ListenerSettings("PUBLIC", Address("127.0.0.1", 9005))


def test_a_protocol_for_a_listener_that_does_not_exist_is_refused() -> None:
    check_security({"listener.security.protocol.map": "PUBLIC:SASL_PLAINTEXT"}, (PUBLIC, None))
    with pytest.raises(SettingsError, match="there is no listener 'METRICS'; this server has PUBLIC"):
        check_security({"listener.security.protocol.map": "METRICS:PLAINTEXT"}, (PUBLIC, None))
