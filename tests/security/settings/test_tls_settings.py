import pytest

from tailrace.runtime.settings import SettingsError
from tailrace.security.settings.setting_texts import SettingTexts
from tailrace.security.settings.tls_settings import ClientAuth, TlsSettings, parse_tls_settings

KEYSTORE = {"ssl.keystore.location": "/etc/server.pem"}


def parsed(**given: str) -> TlsSettings:
    texts = SettingTexts(KEYSTORE | {name.replace("_", "."): text for name, text in given.items()})
    return parse_tls_settings(texts, "PUBLIC", is_mutual=False)


def test_the_defaults() -> None:
    settings = parsed()
    assert settings.keystore_path == "/etc/server.pem"
    assert settings.protocols == ("TLSv1.2", "TLSv1.3")
    assert settings.client_auth is ClientAuth.NONE
    assert settings.mapping_rules == "DEFAULT"


def test_a_mutual_listener_requires_certificates() -> None:
    texts = SettingTexts(KEYSTORE | {"ssl.truststore.location": "ca.pem"})
    assert parse_tls_settings(texts, "PRIVATE", is_mutual=True).client_auth is ClientAuth.REQUIRED


def test_the_password_of_the_key_is_not_shown() -> None:
    assert "opensesame" not in repr(parsed(ssl_key_password="opensesame"))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"ssl_enabled_protocols": "TLSv1.1"}, r"ssl.enabled.protocols: 'TLSv1.1'"),
        ({"ssl_keystore_type": "JKS"}, "convert the store to PKCS12"),
        ({"ssl_keystore_type": "PKCS12"}, "PKCS12 needs ssl.keystore.location and ssl.keystore.password"),
        ({"ssl_truststore_type": "PKCS12", "ssl_truststore_password": "x"}, "needs ssl.truststore.location"),
        ({"ssl_keystore_password": "x"}, "has no effect, because ssl.keystore.type is not PKCS12"),
        ({"ssl_client_auth": "required"}, "trusts no authority"),
        ({"ssl_client_auth": "maybe"}, "one of none, requested, required"),
        ({"ssl_keystore_key": "k"}, "not both"),
        ({"ssl_keystore_location": ""}, "has no certificate"),
        ({"ssl_keystore_location": "", "ssl_keystore_key": "k"}, "need each other"),
        ({"ssl_truststore_location": "a", "ssl_truststore_certificates": "b"}, "not both"),
    ],
)
def test_what_is_refused(given: dict[str, str], reason: str) -> None:
    with pytest.raises(SettingsError, match=reason):
        parsed(**given)
