import pytest

from tailrace.security.settings.security_protocol import SecurityProtocol


@pytest.mark.parametrize(
    ("name", "uses_tls", "uses_sasl"),
    [
        ("PLAINTEXT", False, False),
        ("SSL", True, False),
        ("SASL_PLAINTEXT", False, True),
        ("SASL_SSL", True, True),
    ],
)
def test_a_protocol_is_tls_or_sasl_or_both_or_neither(name: str, uses_tls: bool, uses_sasl: bool) -> None:
    protocol = SecurityProtocol(name)
    assert (protocol.uses_tls, protocol.uses_sasl) == (uses_tls, uses_sasl)
