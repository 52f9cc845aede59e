import pytest

from tailrace.cli.serving.endpoint_protocols import SECURED_PROTOCOLS, refusal_of_encryption, with_encryption
from tailrace.controller.objects.objects import Encryption, PrivateEndpoint, PublicEndpoint, SpuTemplate
from tailrace.security.settings.security_settings import PROTOCOL_MAP

PLAIN, TLS = Encryption.PLAINTEXT, Encryption.TLS
CERTIFICATE = {"ssl.keystore.location": "/server.pem"}
SECURED = {PROTOCOL_MAP: SECURED_PROTOCOLS}


@pytest.mark.parametrize(
    ("given", "public", "protocols"),
    [
        ("", None, ""),
        ("", PLAIN, ""),
        ("", TLS, "PUBLIC:SSL"),
        ("PUBLIC:SASL_PLAINTEXT,PUBLIC_1:PLAINTEXT", TLS, "PUBLIC:SASL_SSL,PUBLIC_1:PLAINTEXT"),
        ("PRIVATE:SSL", TLS, "PRIVATE:SSL,PUBLIC:SSL"),
        ("PUBLIC:SASL_SSL", TLS, "PUBLIC:SASL_SSL"),
        ("PUBLIC:SSL", PLAIN, "PUBLIC:SSL"),
        ("nonsense", TLS, "nonsense"),
    ],
)
def test_an_endpoint_with_tls_encrypts_its_listener_and_none_is_opened(
    given: str, public: Encryption | None, protocols: str
) -> None:
    broker = {"num.partitions": "3", PROTOCOL_MAP: given}
    assert with_encryption(broker, public) == {"num.partitions": "3", PROTOCOL_MAP: protocols}


@pytest.mark.parametrize(
    ("broker", "public", "private", "refusal"),
    [
        ({}, None, None, None),
        ({}, PLAIN, PLAIN, None),
        (CERTIFICATE, TLS, None, None),
        (SECURED, TLS, TLS, None),
        (SECURED, None, None, None),
        (
            {},
            TLS,
            None,
            "template.publicEndpoint.encryption: the listener PUBLIC uses TLS and has no certificate: set ",
        ),
        (SECURED, PLAIN, None, "template.publicEndpoint.encryption: PLAINTEXT would open a listener that "),
        (CERTIFICATE, None, TLS, "template.privateEndpoint.encryption: TLS is not possible, because "),
        (SECURED, None, PLAIN, "template.privateEndpoint.encryption: PLAINTEXT is not possible, because "),
        ({PROTOCOL_MAP: "nonsense"}, TLS, None, f"template.publicEndpoint.encryption: {PROTOCOL_MAP}: 'nonsense' "),
        ({PROTOCOL_MAP: "nonsense"}, None, None, None),
    ],
)
def test_what_cannot_be_is_refused_with_one_sentence(
    broker: dict[str, str], public: Encryption | None, private: Encryption | None, refusal: str | None
) -> None:
    template = SpuTemplate(public=PublicEndpoint(encryption=public), private=PrivateEndpoint(encryption=private))
    found = refusal_of_encryption(broker, template, has_certificates=broker is SECURED)
    if refusal is None:
        assert found is None
    else:
        assert found is not None
        assert found.startswith(refusal)
