import pytest

from tailrace.cli.serving.security_check import check_security, warning_of_open_listeners
from tailrace.runtime.network import Address
from tailrace.runtime.settings import ListenerSettings, SettingsError

PUBLIC = ListenerSettings("PUBLIC", Address("127.0.0.1", 9005))


def test_a_protocol_for_a_listener_that_does_not_exist_is_refused() -> None:
    check_security({"listener.security.protocol.map": "PUBLIC:SASL_PLAINTEXT"}, (PUBLIC, None))
    with pytest.raises(SettingsError, match="there is no listener 'METRICS'; this server has PUBLIC"):
        check_security({"listener.security.protocol.map": "METRICS:PLAINTEXT"}, (PUBLIC, None))


EVERYWHERE = ListenerSettings("PUBLIC", Address("0.0.0.0", 9005))
PRIVATE = ListenerSettings("PRIVATE", Address("10.0.0.7", 9006))


@pytest.mark.parametrize(
    ("protocols", "listeners", "warned"),
    [
        ("", (PUBLIC,), ""),
        ("", (EVERYWHERE, PUBLIC), "PUBLIC 0.0.0.0:9005"),
        ("", (EVERYWHERE, PRIVATE), "PUBLIC 0.0.0.0:9005 or PRIVATE 10.0.0.7:9006"),
        ("PUBLIC:SASL_SSL", (EVERYWHERE, PRIVATE), "PRIVATE 10.0.0.7:9006"),
        ("PUBLIC:SSL,PRIVATE:SSL", (EVERYWHERE, PRIVATE), ""),
    ],
)
def test_plain_listeners_that_other_machines_reach_are_named(
    protocols: str, listeners: tuple[ListenerSettings, ...], warned: str
) -> None:
    broker = {"listener.security.protocol.map": protocols} if protocols else {}
    warning = warning_of_open_listeners(broker, listeners)
    assert (warning is None) == (not warned)
    assert warning is None or f"anyone who reaches {warned} may" in warning
