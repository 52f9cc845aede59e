import pytest

from tailrace.security.sasl.client_exchange import ExchangeError, PlainClient, ScramClient

SHA = "SCRAM-SHA-256"


def client() -> ScramClient:
    return ScramClient(SHA, "alice", "secret", "nonce")


def test_plain_sends_everything_at_once() -> None:
    plain = PlainClient("alice", "secret")
    assert plain.first() == b"\0alice\0secret"
    assert plain.step(b"") is None


@pytest.mark.parametrize(
    "challenge",
    [b"", b"r=nonce,s=AAAA,i=4096", b"r=other,s=AAAA,i=4096", b"r=noncex,s=A,i=4096", b"r=noncex,s=AAAA,i=100",
     b"r=noncex,s=AAAA,i=999999999", b"e=other-error"],
)  # fmt: skip
def test_a_challenge_that_breaks_the_protocol_or_weakens_the_password_is_refused(challenge: bytes) -> None:
    with pytest.raises(ExchangeError):
        client().step(challenge)


def test_a_server_that_does_not_know_the_password_is_refused() -> None:
    scram = client()
    assert scram.step(b"r=noncex,s=AAAA,i=4096") is not None
    with pytest.raises(ExchangeError):
        scram.step(b"v=AAAA")
