import math

import pytest
from sasl_samples import ALICE, NOW_MS, PASSWORD, find_alice

from tailrace.protocol.error_codes import ErrorCode
from tailrace.security.identity.principal import ANONYMOUS
from tailrace.security.sasl.bearer_exchange import BearerExchange
from tailrace.security.sasl.bearer_tokens import Bearer
from tailrace.security.sasl.client_exchange import ScramClient
from tailrace.security.sasl.plain_exchange import KnownPasswords, PlainExchange
from tailrace.security.sasl.sasl_session import Outcome, OutcomeAfterWork, SaslSession
from tailrace.security.sasl.scram_exchange import ScramExchange

SHA = "SCRAM-SHA-256"
PLAIN_TOKEN = f"\0alice\0{PASSWORD}".encode()


def bearer(token: str) -> Bearer:
    name, lifetime_ms = token.split("-")
    return Bearer(name, NOW_MS + int(lifetime_ms), frozenset())


def session(lifetime_ms_max: int = 0) -> SaslSession:
    known = KnownPasswords(b"secret")
    return SaslSession(
        {
            "PLAIN": lambda: PlainExchange(lambda name: find_alice(SHA, name), known),
            SHA: lambda: ScramExchange(SHA, lambda name, is_token: find_alice(SHA, name, is_token), "server"),
            "OAUTHBEARER": lambda: BearerExchange(bearer),
        },
        lifetime_ms_max,
        lambda: NOW_MS,
    )


def take(login: SaslSession, data: bytes, version: int | None = 2, now: float = 0.0) -> Outcome:
    outcome = login.take(data, version, now)
    return outcome.conclude(outcome.compute(), now) if isinstance(outcome, OutcomeAfterWork) else outcome


def log_in(
    login: SaslSession, mechanism: str = "PLAIN", now: float = 0.0, version: int = 2, token: str = ""
) -> Outcome:
    assert login.shake(1, mechanism, now).code is ErrorCode.NONE
    if mechanism == SHA:
        client = ScramClient(SHA, "alice", PASSWORD, "nonce")
        challenge = take(login, client.first(), version, now)
        return take(login, client.step(challenge.data) or b"", version, now)
    data = PLAIN_TOKEN if mechanism == "PLAIN" else f"n,,\x01auth=Bearer {token}\x01\x01".encode()
    return take(login, data, version, now)


@pytest.mark.parametrize("mechanism", ["PLAIN", SHA])
def test_a_client_that_has_logged_in_is_known_and_may_send_anything(mechanism: str) -> None:
    login = session()
    assert (login.principal, login.is_open(0)) == (ANONYMOUS, False)
    outcome = log_in(login, mechanism)
    assert (outcome.code, outcome.lifetime_ms, outcome.refusal) == (ErrorCode.NONE, 0, None)
    assert (login.principal, login.mechanism, login.is_open(math.inf)) == (ALICE, mechanism, True)


def test_a_mechanism_that_is_not_enabled_is_refused_and_the_others_are_named() -> None:
    login = session()
    answer = login.shake(1, "GSSAPI", 0)
    assert answer.code is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert answer.mechanisms == ("PLAIN", SHA, "OAUTHBEARER") and answer.refusal is not None
    assert login.shake(1, "PLAIN", 0).refusal is not None, "the client gets no second try on this connection"


def test_tokens_have_headers_after_handshake_1_only() -> None:
    for version, is_raw in ((0, True), (1, False)):
        login = session()
        login.shake(version, "PLAIN", 0)
        assert (login.takes_raw_token, login.takes_token) == (is_raw, True)


def test_a_wrong_password_closes_the_session_and_the_client_is_told_little() -> None:
    login = session()
    login.shake(1, "PLAIN", 0)
    outcome = take(login, b"\0alice\0wrong")
    assert outcome.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert outcome.message == "Authentication failed: Invalid username or password"
    assert not login.is_open(0) and login.principal == ANONYMOUS
    assert take(login, PLAIN_TOKEN).refusal is not None, "even the right password comes too late"


def test_a_wrong_proof_names_the_mechanism_only() -> None:
    login = session()
    login.shake(1, SHA, 0)
    client = ScramClient(SHA, "alice", "wrong", "nonce")
    outcome = take(login, client.step(take(login, client.first()).data) or b"")
    assert outcome.message == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
    )


def test_a_token_before_the_handshake_is_refused() -> None:
    assert take(session(), PLAIN_TOKEN).refusal is not None


def test_a_second_handshake_in_an_exchange_is_refused() -> None:
    login = session()
    login.shake(1, SHA, 0)
    answer = login.shake(1, SHA, 0)
    assert answer.code is ErrorCode.ILLEGAL_SASL_STATE and answer.refusal is not None


def test_a_session_ends_with_the_limit_or_the_credential_whatever_is_first() -> None:
    for limit_ms, token_ms, lifetime_ms in ((0, 0, 0), (5000, 0, 5000), (0, 7000, 7000), (5000, 7000, 5000)):
        login = session(limit_ms)
        outcome = log_in(login, "OAUTHBEARER", token=f"alice-{token_ms}") if token_ms else log_in(login)
        assert outcome.lifetime_ms == lifetime_ms
        assert login.is_open(lifetime_ms / 1000)
        assert login.is_open(lifetime_ms / 1000 + 0.1) is (lifetime_ms == 0)


def test_a_client_may_log_in_again_after_its_session_has_expired() -> None:
    login = session(5000)
    log_in(login, now=0)
    assert login.has_expired(6) and not login.is_open(6)
    assert log_in(login, now=6).code is ErrorCode.NONE
    assert login.is_open(11) and not login.is_open(11.1)


def test_a_repeated_login_keeps_the_user() -> None:
    login = session()
    log_in(login, "OAUTHBEARER", token="alice-9000")
    outcome = log_in(login, "OAUTHBEARER", now=2, token="bob-9000")
    assert outcome.message == "Cannot change principals during re-authentication from User.alice: User.bob"
    assert outcome.refusal is not None and not login.is_open(2)


def test_a_repeated_login_keeps_the_mechanism() -> None:
    login = session()
    log_in(login, SHA)
    outcome = log_in(login, "PLAIN", now=2)
    assert outcome.message == (
        "SASL mechanism 'PLAIN' requested by client is not supported for re-authentication of mechanism 'SCRAM-SHA-256'"
    )
    assert outcome.refusal is not None and not login.is_open(2)


def test_a_wrong_password_in_a_repeated_login_is_called_so() -> None:
    login = session()
    log_in(login, SHA)
    login.shake(1, SHA, 2)
    outcome = take(login, b"nonsense", now=2)
    assert outcome.message is not None and "during re-authentication" in outcome.message


def test_a_login_is_not_repeated_within_a_second() -> None:
    login = session()
    log_in(login)
    assert login.shake(1, "PLAIN", 0.9) == (ErrorCode.ILLEGAL_SASL_STATE, (), None)
    assert login.is_open(0.9), "the client keeps its session"
    assert login.shake(1, "PLAIN", 1.0).code is ErrorCode.NONE


def test_a_client_that_does_not_know_of_sessions_cannot_repeat_its_login() -> None:
    login = session(5000)
    log_in(login, version=0)
    assert login.shake(1, "PLAIN", 2).code is ErrorCode.ILLEGAL_SASL_STATE
    assert not login.is_open(6)


def test_a_token_after_the_login_changes_nothing() -> None:
    login = session()
    log_in(login)
    outcome = take(login, PLAIN_TOKEN)
    assert (outcome.code, outcome.refusal, login.is_open(0)) == (ErrorCode.ILLEGAL_SASL_STATE, None, True)
