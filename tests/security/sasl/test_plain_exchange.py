import pytest
from sasl_samples import ALICE, PASSWORD, alice, find_alice, finish

from tailrace.security.sasl.plain_exchange import KnownPasswords, PlainExchange
from tailrace.security.sasl.sasl_steps import Authenticated, HardWork, Refused

SHA = "SCRAM-SHA-256"


def exchange(known: KnownPasswords | None = None) -> PlainExchange:
    return PlainExchange(lambda name: find_alice(SHA, name), known or KnownPasswords(b"secret"))


def test_the_right_password_is_let_in_with_or_without_the_name_as_authorization_id() -> None:
    for authorization in ("", "alice"):
        done = finish(exchange(), f"{authorization}\0alice\0{PASSWORD}".encode())
        assert isinstance(done, Authenticated) and done.principal == ALICE and done.data == b""


@pytest.mark.parametrize("sent", [b"\0alice\0wrong", b"\0mallory\0wrong"])
def test_an_unknown_user_looks_like_a_wrong_password_and_takes_the_same_work(sent: bytes) -> None:
    step = exchange().step(sent)
    assert isinstance(step, HardWork)
    refused = step.conclude(step.compute())
    assert isinstance(refused, Refused)
    assert refused.message == "Authentication failed: Invalid username or password"


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (b"\0\0secret", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"alice\0secret", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0secret\0more\0x", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
    ],
)
def test_a_malformed_message_is_refused_without_its_secrets(sent: bytes, message: str) -> None:
    refused = exchange().step(sent)
    assert isinstance(refused, Refused) and refused.message == message
    assert "secret" not in refused.reason + message
    assert isinstance(exchange().step(b"\xff\xfe"), Refused)


def test_another_authorization_id_is_refused() -> None:
    refused = finish(exchange(), f"bob\0alice\0{PASSWORD}".encode())
    assert isinstance(refused, Refused) and "authorization id" in str(refused.message)


def test_a_password_that_was_right_needs_no_work_again_until_the_credential_changes() -> None:
    known = KnownPasswords(b"secret")
    message = f"\0alice\0{PASSWORD}".encode()
    finish(exchange(known), message)
    assert isinstance(exchange(known).step(message), Authenticated)
    assert isinstance(exchange(known).step(b"\0alice\0wrong"), HardWork)
    changed = PlainExchange(lambda name: find_alice("SCRAM-SHA-512", name), known)
    assert isinstance(changed.step(message), HardWork)


def test_a_bounded_number_of_passwords_is_known_and_none_is_shown() -> None:
    known = KnownPasswords(b"secret", count_max=2)
    for name in ("a", "b", "c"):
        known.add(name, PASSWORD, alice(SHA))
    assert [known.knows(name, PASSWORD, alice(SHA)) for name in ("a", "b", "c")] == [False, True, True]
    assert PASSWORD not in repr(known) and "secret" not in repr(known)
