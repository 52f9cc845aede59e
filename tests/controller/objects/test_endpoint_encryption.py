import pytest

from tailrace.controller.objects.endpoint_encryption import contradiction, lacking_encryption
from tailrace.controller.objects.objects import (
    Encryption,
    PrivateEndpoint,
    PublicEndpoint,
    PublicListener,
    SpuSpec,
)
from tailrace.protocol.ids import SpuId
from tailrace.security.settings.security_protocol import SecurityProtocol

PLAIN, TLS = Encryption.PLAINTEXT, Encryption.TLS
PLAINTEXT, SSL = SecurityProtocol.PLAINTEXT, SecurityProtocol.SSL
SASL_PLAINTEXT, SASL_SSL = SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL


def _listeners(*protocols: SecurityProtocol) -> tuple[PublicListener, ...]:
    names = ("PUBLIC", "PUBLIC_1")
    return tuple(PublicListener(name, "h", 1, protocol=each) for name, each in zip(names, protocols, strict=False))


@pytest.mark.parametrize(
    ("public", "protocol", "contradicts", "is_lacking"),
    [
        (None, PLAINTEXT, False, False),
        (None, SASL_SSL, False, False),
        (TLS, SSL, False, False),
        (TLS, SASL_SSL, False, False),
        (TLS, PLAINTEXT, True, True),
        (TLS, SASL_PLAINTEXT, True, True),
        (PLAIN, PLAINTEXT, False, False),
        (PLAIN, SASL_PLAINTEXT, False, False),
        (PLAIN, SSL, True, False),
    ],
)
def test_a_public_endpoint_and_its_listener(
    public: Encryption | None, protocol: SecurityProtocol, contradicts: bool, is_lacking: bool
) -> None:
    spec = SpuSpec(SpuId(1), public=PublicEndpoint(encryption=public))
    found = contradiction(spec, _listeners(protocol), SSL)
    assert (found is not None) == contradicts
    assert (lacking_encryption(spec, _listeners(protocol), SSL) is not None) == is_lacking
    if found is not None:
        assert found.startswith(f"its listener PUBLIC uses {protocol}, but publicEndpoint.encryption says {public}: ")


def test_the_first_listener_counts_and_each_endpoint_has_its_own_sentence() -> None:
    spec = SpuSpec(SpuId(1), public=PublicEndpoint(encryption=PLAIN), private=PrivateEndpoint(encryption=TLS))
    assert contradiction(spec, _listeners(PLAINTEXT, SSL), SSL) is None
    both = contradiction(spec, _listeners(SSL), PLAINTEXT)
    assert both is not None
    assert both.count("; its listener PRIVATE uses PLAINTEXT") == 1
    lacking = lacking_encryption(spec, _listeners(SSL), PLAINTEXT)
    assert lacking is not None
    assert lacking.startswith("its listener PRIVATE uses PLAINTEXT")
