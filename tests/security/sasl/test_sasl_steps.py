from tailrace.security.identity.principal import parse_principal
from tailrace.security.sasl.sasl_steps import user


def test_a_user_is_a_principal() -> None:
    assert user("alice") == parse_principal("User:alice")
