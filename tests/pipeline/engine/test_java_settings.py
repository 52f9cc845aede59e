import pytest

from tailrace.client.client_security import ClientSecurity, parse_client_security
from tailrace.pipeline.engine.java_settings import java_settings
from tailrace.runtime.files import RealFiles
from tailrace.security.certificates.certificate_making import make_authority, make_client_certificate
from tailrace.security.settings.secret import Secret

NOW_MS = 1_900_000_000_000


def test_a_plain_client_needs_no_settings() -> None:
    assert java_settings(ClientSecurity()) == {}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
@pytest.mark.parametrize("is_token", [False, True])
def test_our_own_parser_reads_the_same_login_back(mechanism: str, is_token: bool) -> None:
    security = ClientSecurity(
        mechanism=mechanism, user="alice", password=Secret('a "quoted\\" word'), is_token=is_token
    )
    settings = java_settings(security)
    assert settings["security.protocol"] == "SASL_PLAINTEXT"
    read = parse_client_security(settings, RealFiles())
    assert (read.mechanism, read.user, read.is_token) == (mechanism, "alice", is_token)
    assert read.password.reveal() == 'a "quoted\\" word'


def test_certificates_are_texts() -> None:
    authority = make_authority("tests", NOW_MS)
    certificate = make_client_certificate(authority, "alice", NOW_MS).decode()
    security = ClientSecurity(
        uses_tls=True, trusted=authority.certificate.decode(), certificate=Secret(certificate), checks_names=False
    )
    settings = java_settings(security)
    assert settings["security.protocol"] == "SSL" and settings["ssl.endpoint.identification.algorithm"] == ""
    assert settings["ssl.truststore.certificates"] == security.trusted
    assert "PRIVATE KEY" in settings["ssl.keystore.key"]
    assert parse_client_security(settings, RealFiles()).uses_tls


def test_a_bearer_token_stays_in_its_file() -> None:
    settings = java_settings(ClientSecurity(uses_tls=True, mechanism="OAUTHBEARER", bearer_path="/run/token"))
    assert settings["sasl.oauthbearer.token.endpoint.url"] == "file:///run/token"
    assert settings["security.protocol"] == "SASL_SSL"
