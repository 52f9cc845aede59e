"""The rules of delegation tokens."""

import base64
from hashlib import sha512
from hmac import digest

import pytest
from msgspec.structs import replace

from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.security.identity.principal import ANONYMOUS, Principal
from tailrace.security.records.token_record import TokenRecord
from tailrace.security.records.user_record import SCRAM_SHA_256, SCRAM_SHA_512
from tailrace.security.sasl.scram_keys import fits
from tailrace.security.settings.secret import Secret
from tailrace.security.tokens.token_rules import (
    TokenSettings,
    belongs_to,
    check_may_use_tokens,
    expired,
    has_expired,
    new_token,
    password_of,
    renewed,
)

ALICE, BOB, CAROL, DAVE = (Principal("User", name) for name in ("alice", "bob", "carol", "dave"))
SETTINGS = TokenSettings(Secret("key"), 1000, 100)


def _token(lifetime_ms: int = -1, settings: TokenSettings = SETTINGS) -> TokenRecord:
    return new_token(settings, "t", ALICE, BOB, [CAROL], lifetime_ms, 5000, lambda: b"salt")


def _code(error: pytest.ExceptionInfo[KafkaError]) -> ErrorCode:
    return error.value.code


@pytest.mark.parametrize(
    ("lifetime_ms", "times"),
    [(-1, (5000, 5100, 6000)), (0, (5000, 5100, 6000)), (50, (5000, 5050, 5050)), (2000, (5000, 5100, 6000))],
)
def test_a_token_lives_as_long_as_asked_for_within_the_limits(lifetime_ms: int, times: tuple[int, int, int]) -> None:
    token = _token(lifetime_ms)
    assert (token.issued_ms, token.expires_ms, token.max_ms) == times
    assert (token.owner, token.requester, token.renewers) == ("User:alice", "User:bob", ("User:carol",))


def test_the_password_of_a_token_is_the_hmac_of_its_id_and_fits_both_mechanisms() -> None:
    hmac = SETTINGS.hmac_of("t")
    assert hmac == digest(b"key", b"t", sha512)
    password = password_of(hmac)
    assert password == base64.b64encode(hmac).decode()
    for mechanism in (SCRAM_SHA_256, SCRAM_SHA_512):
        credential = _token().credential(mechanism)
        assert credential is not None
        assert fits(credential, password)
        assert not fits(credential, "t")


def test_only_users_own_and_renew_tokens() -> None:
    group = Principal("Group", "admins")
    with pytest.raises(KafkaError) as refused:
        new_token(SETTINGS, "t", ALICE, ALICE, [group], -1, 0, lambda: b"salt")
    assert _code(refused) is ErrorCode.INVALID_PRINCIPAL_TYPE


def test_the_names_of_all_renewers_are_bounded() -> None:
    many = [Principal("User", f"{number:090}") for number in range(30)]
    with pytest.raises(KafkaError, match="take at most 2048 bytes") as refused:
        new_token(SETTINGS, "t", ALICE, ALICE, many, -1, 0, lambda: b"salt")
    assert _code(refused) is ErrorCode.POLICY_VIOLATION
    assert len(new_token(SETTINGS, "t", ALICE, ALICE, many[:20], -1, 0, lambda: b"salt").renewers) == 20


def test_without_a_secret_key_there_are_no_tokens() -> None:
    with pytest.raises(KafkaError) as refused:
        _token(settings=replace(SETTINGS, secret=None))
    assert _code(refused) is ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


@pytest.mark.parametrize(("period_ms", "expires_ms"), [(-1, 5190), (0, 5190), (7, 5097), (500, 5190)])
def test_a_renewed_token_expires_later_within_the_limits(period_ms: int, expires_ms: int) -> None:
    for principal in (ALICE, CAROL):
        assert renewed(_token(), principal, period_ms, SETTINGS, 5090).expires_ms == expires_ms
    late = renewed(replace(_token(), expires_ms=6000), ALICE, -1, SETTINGS, 5990)
    assert late.expires_ms == late.max_ms == 6000


@pytest.mark.parametrize("principal", [BOB, DAVE])
def test_neither_the_requester_nor_others_renew_or_expire_a_token(principal: Principal) -> None:
    with pytest.raises(KafkaError) as refused:
        renewed(_token(), principal, -1, SETTINGS, 5000)
    assert _code(refused) is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    with pytest.raises(KafkaError) as refused:
        expired(_token(), principal, -1, 5000)
    assert _code(refused) is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH


def test_an_expired_token_is_not_renewed_but_can_be_removed() -> None:
    token = _token()
    assert not has_expired(token, 5100)
    assert has_expired(token, 5101)
    with pytest.raises(KafkaError) as refused:
        renewed(token, ALICE, -1, SETTINGS, 5101)
    assert _code(refused) is ErrorCode.DELEGATION_TOKEN_EXPIRED
    with pytest.raises(KafkaError) as refused:
        expired(token, ALICE, 10, 5101)
    assert _code(refused) is ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert expired(token, ALICE, -1, 5101) is None


def test_a_token_expires_when_its_owner_says() -> None:
    first = expired(_token(), ALICE, 10, 5000)
    last = expired(_token(), CAROL, 5000, 5000)
    assert first is not None and last is not None
    assert (first.expires_ms, last.expires_ms) == (5010, 6000)


def test_owner_requester_and_renewers_see_a_token() -> None:
    assert [belongs_to(_token(), each) for each in (ALICE, BOB, CAROL, DAVE)] == [True, True, True, False]


@pytest.mark.parametrize(
    ("protocol", "principal", "is_token", "allowed"),
    [
        ("SASL_SSL", ALICE, False, True),
        ("SASL_PLAINTEXT", ALICE, False, True),
        ("SSL", ALICE, False, True),
        ("SASL_SSL", ALICE, True, False),
        ("SSL", ANONYMOUS, False, False),
        ("PLAINTEXT", ANONYMOUS, False, False),
    ],
)
def test_clients_need_an_identity_of_their_own(
    protocol: str, principal: Principal, is_token: bool, allowed: bool
) -> None:
    if allowed:
        check_may_use_tokens(protocol, principal, is_token=is_token)
        return
    with pytest.raises(KafkaError) as refused:
        check_may_use_tokens(protocol, principal, is_token=is_token)
    assert _code(refused) is ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
