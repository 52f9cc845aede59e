from sasl_samples import ALICE, PASSWORD, alice
from sasl_server import ALL_MECHANISMS, TOKEN_ID, SaslServer

from tailrace.security.sasl.scram_keys import SCRAM_MECHANISMS


def test_a_session_offers_the_enabled_mechanisms_in_their_order() -> None:
    for enabled in (ALL_MECHANISMS, "PLAIN,SCRAM-SHA-512"):
        session = SaslServer(sasl_enabled_mechanisms=enabled).authenticators.new_session()
        assert session.shake(1, "GSSAPI", 0).mechanisms == tuple(enabled.split(","))


def test_users_and_tokens_are_found_in_the_tables_and_unknown_names_get_a_credential_too() -> None:
    authenticators = SaslServer().authenticators
    for mechanism in SCRAM_MECHANISMS:
        assert authenticators.find(mechanism, "alice", is_token=False) == (alice(mechanism), ALICE, None)
        token = authenticators.find(mechanism, TOKEN_ID, is_token=True)
        assert token.owner == ALICE and token.expires_ms is not None
        for name, is_token in (("mallory", False), (TOKEN_ID, False), ("alice", True)):
            unknown = authenticators.find(mechanism, name, is_token=is_token)
            assert unknown.owner is None
            assert unknown == authenticators.find(mechanism, name, is_token=is_token), "it looks the same each time"


def test_nothing_secret_is_shown() -> None:
    authenticators = SaslServer().authenticators
    shown = repr(vars(authenticators)) + repr(authenticators.find("SCRAM-SHA-256", "alice", is_token=False))
    assert PASSWORD not in shown and repr(alice("SCRAM-SHA-256").stored_key) not in shown
