from pathlib import Path

import pytest

from tailrace.client.client_security import (
    ClientSecurity,
    load_client_security,
    parse_client_security,
    parse_jaas,
)
from tailrace.runtime.files import RealFiles
from tailrace.runtime.settings import SettingsError
from tailrace.security.settings.secret import Secret

SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
NAMED = {"sasl.username": "alice", "sasl.password": "secret"}


def parse(given: dict[str, str]) -> ClientSecurity:
    return parse_client_security(given, RealFiles())


def test_a_file_without_security_changes_nothing() -> None:
    assert parse({"bootstrap.servers": "x:1", "acks": "all", "group.id": "g"}).is_plain


def test_names_of_librdkafka_and_of_java_mean_the_same() -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";'
    expected = ClientSecurity(mechanism="PLAIN", user="alice", password=Secret("secret"))
    assert parse(SASL | NAMED) == parse(SASL | {"sasl.jaas.config": jaas}) == expected
    assert parse({"security.protocol": "sasl_plaintext", "sasl.mechanisms": "PLAIN", **NAMED}) == expected


def test_a_delegation_token_is_recognised() -> None:
    jaas = "ScramLoginModule required username=id password='h\\'x==' tokenauth=true;"
    security = parse({**SASL, "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": jaas})
    assert (security.user, security.password.reveal(), security.is_token) == ("id", "h'x==", True)


def test_jaas_options_may_be_quoted() -> None:
    assert parse_jaas('X required a="1 \\"2\\"" b=\'3\' c=4;') == {"a": '1 "2"', "b": "3", "c": "4"}


def test_pem_files_are_read(tmp_path: Path) -> None:
    for name in ("ca", "certificate", "key"):
        (tmp_path / name).write_text(f"the {name}")
    tls = {"security.protocol": "SSL", "ssl.ca.location": str(tmp_path / "ca")}
    given = tls | {"ssl.certificate.location": str(tmp_path / "certificate"), "ssl.key.location": str(tmp_path / "key")}
    security = parse(given | {"ssl.endpoint.identification.algorithm": "none"})
    assert (security.uses_tls, security.trusted, security.checks_names) == (True, "the ca", False)
    assert security.certificate == Secret("the key\nthe certificate")
    assert parse(tls).checks_names


def test_a_bearer_token_comes_from_a_file(tmp_path: Path) -> None:
    bearer = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    url = "sasl.oauthbearer.token.endpoint.url"
    assert parse({**bearer, url: "file:///run/token"}).bearer_path == "/run/token"
    for wrong in ("", "https://issuer/token", "file:token"):
        with pytest.raises(SettingsError):
            parse({**bearer, url: wrong})


@pytest.mark.parametrize(
    "given",
    [
        {"security.protocol": "TLS"},
        SASL,
        {**SASL, **NAMED, "sasl.mechanism": "GSSAPI"},
        {"security.protocol": "SASL_PLAINTEXT", **NAMED},
        {**SASL, "sasl.username": "alice"},
        {"sasl.username": "alice"},
        {**SASL, **NAMED, "ssl.ca.location": "x"},
        {"security.protocol": "SSL", "ssl.ca.location": "/nowhere"},
        {"security.protocol": "SSL", "ssl.truststore.type": "JKS"},
        {"security.protocol": "SSL", "ssl.ca.location": "x", "ssl.truststore.location": "x"},
        {"security.protocol": "SSL", "ssl.key.pem": "x"},
        {"security.protocol": "SSL", "ssl.unknown": "x"},
    ],
    ids=str,
)
def test_wrong_settings_and_those_without_effect_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(SettingsError) as caught:
        parse(given)
    assert "secret" not in str(caught.value)


def test_the_file_is_named_in_errors_and_no_secret_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=alice\nsasl.password=secret")
    assert "secret" not in repr(load_client_security(str(path), RealFiles()))
    with pytest.raises(SettingsError, match="nowhere"):
        load_client_security(str(tmp_path / "nowhere"), RealFiles())
    path.write_text("security.protocol=x")
    with pytest.raises(SettingsError, match=r"client\.properties: security\.protocol"):
        load_client_security(str(path), RealFiles())
