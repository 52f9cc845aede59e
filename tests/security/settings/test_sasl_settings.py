import pytest

from tailrace.runtime.settings import SettingsError
from tailrace.security.sasl.bearer_tokens import BearerRules
from tailrace.security.settings.sasl_settings import SaslSettings, parse_sasl_settings
from tailrace.security.settings.setting_texts import SettingTexts

URL = "sasl.oauthbearer.jwks.endpoint.url"
BEARER = {"sasl.enabled.mechanisms": "OAUTHBEARER", URL: "file:///keys.json"}


def parse(listener: str = "PUBLIC", **given: str) -> SaslSettings:
    return parse_sasl_settings(SettingTexts({name.replace("_", "."): text for name, text in given.items()}), listener)


def test_without_settings_scram_is_enabled() -> None:
    assert parse() == SaslSettings(("SCRAM-SHA-256", "SCRAM-SHA-512"), 0, 524288, 0.1, None, None, 3600.0)


def test_settings_are_typed() -> None:
    given = {
        **BEARER,
        "connections.max.reauth.ms": "5000",
        "sasl.server.max.receive.size": "1000",
        "connection.failed.authentication.delay.ms": "0",
        "sasl.oauthbearer.expected.audience": "a, b",
        "sasl.oauthbearer.expected.issuer": "https://issuer",
        "sasl.oauthbearer.required.scope": "read",
        "sasl.oauthbearer.clock.skew.seconds": "5",
        "sasl.oauthbearer.sub.claim.name": "client_id",
        "sasl.oauthbearer.scope.claim.name": "scp",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms": "60000",
    }
    rules = BearerRules("https://issuer", ("a", "b"), ("read",), "scp", "client_id", 5.0)
    expected = SaslSettings(("OAUTHBEARER",), 5000, 1000, 0.0, rules, "file:///keys.json", 60.0)
    assert parse_sasl_settings(SettingTexts(given), "PUBLIC") == expected


def test_a_listener_may_have_its_own_mechanisms() -> None:
    texts = SettingTexts(
        {"sasl.enabled.mechanisms": "PLAIN", "listener.name.public_1.sasl.enabled.mechanisms": "SCRAM-SHA-512"}
    )
    assert parse_sasl_settings(texts, "PUBLIC").mechanisms == ("PLAIN",)
    assert parse_sasl_settings(texts, "PUBLIC_1").mechanisms == ("SCRAM-SHA-512",)


@pytest.mark.parametrize(
    "given",
    [
        {"sasl.enabled.mechanisms": "GSSAPI"},
        {"sasl.enabled.mechanisms": "OAUTHBEARER"},
        {URL: "file:///keys.json"},
        {"connections.max.reauth.ms": "-1"},
        {"connections.max.reauth.ms": "soon"},
        {"connection.failed.authentication.delay.ms": "10001"},
    ],
    ids=str,
)
def test_a_wrong_setting_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(SettingsError):
        parse_sasl_settings(SettingTexts(given), "PUBLIC")


@pytest.mark.parametrize(
    "url",
    ["http://host/keys", "file://host/keys", "file:keys", "keys.json", "https:///keys", "https://user@host/keys", "ftp://host/",
     "file:///keys?x", "https://host/keys#x", "data:,{}", ""],
)  # fmt: skip
def test_cve_2025_27817_keys_come_only_from_a_local_file_or_an_encrypted_server(url: str) -> None:
    with pytest.raises(SettingsError):
        parse_sasl_settings(SettingTexts({**BEARER, URL: url}), "PUBLIC")


def test_https_is_allowed() -> None:
    assert parse_sasl_settings(SettingTexts({**BEARER, URL: "https://host:8443/keys?a=b"}), "X").keys_url is not None
