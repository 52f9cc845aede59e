import pytest

from tailrace.runtime.settings import SettingsError
from tailrace.security.settings.security_protocol import SecurityProtocol
from tailrace.security.settings.security_settings import PROTOCOL_MAP, parse_security_settings

KEYSTORE = {"ssl.keystore.location": "/etc/server.pem", "ssl.truststore.location": "/etc/ca.pem"}
LISTENERS = ("PUBLIC", "PUBLIC_1", "PRIVATE", "METRICS")


def test_without_settings_all_listeners_are_plain() -> None:
    settings = parse_security_settings({})
    settings.check(LISTENERS)
    assert settings.are_plain
    assert settings.listener("PUBLIC").tls is None


def test_numbered_listeners_follow_the_first_one() -> None:
    settings = parse_security_settings({PROTOCOL_MAP: "PUBLIC:SSL"})
    assert settings.protocol_of("PUBLIC_1") is SecurityProtocol.SSL
    assert settings.protocol_of("PRIVATE") is SecurityProtocol.PLAINTEXT
    settings = parse_security_settings({PROTOCOL_MAP: "PUBLIC:SASL_SSL, PUBLIC_1:SASL_PLAINTEXT"})
    assert settings.protocol_of("PUBLIC_1") is SecurityProtocol.SASL_PLAINTEXT


def test_an_override_gives_one_listener_another_certificate() -> None:
    settings = parse_security_settings(
        KEYSTORE | {PROTOCOL_MAP: "PUBLIC:SSL,PRIVATE:SSL", "listener.name.private.ssl.keystore.location": "own.pem"}
    )
    settings.check(LISTENERS)
    private, public = settings.listener("PRIVATE").tls, settings.listener("PUBLIC").tls
    assert private is not None
    assert public is not None
    assert (private.keystore_path, public.keystore_path) == ("own.pem", "/etc/server.pem")
    assert (private.client_auth, public.client_auth) == ("required", "none")


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({PROTOCOL_MAP: "PUBLIC"}, "not NAME:PROTOCOL"),
        ({PROTOCOL_MAP: "PUBLIC:TLS"}, "not NAME:PROTOCOL with one of PLAINTEXT, SSL"),
        ({PROTOCOL_MAP: "PUBLIC:SSL,PUBLIC:PLAINTEXT"}, "named twice"),
        ({PROTOCOL_MAP: "PRIVATE:SASL_SSL"}, "PRIVATE takes PLAINTEXT or SSL"),
        ({PROTOCOL_MAP: "PUBLIC:SSL"}, "has no certificate"),
        (KEYSTORE | {PROTOCOL_MAP: "EXTERNAL:SSL"}, "there is no listener 'EXTERNAL'"),
        ({"listener.name.external.ssl.client.auth": "none"}, "there is no listener 'EXTERNAL'"),
        ({"listener.name.public.ssl.client.auth": "none"}, "has no effect"),
        ({"listener.name.private.max.connections": "5"}, "only for the listeners of clients"),
    ],
)
def test_what_is_refused(given: dict[str, str], reason: str) -> None:
    with pytest.raises(SettingsError, match=reason):
        parse_security_settings(given).check(LISTENERS)
