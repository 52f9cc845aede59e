import tracemalloc

import pytest
from sasl_samples import ALICE

from tailrace.security.sasl.bearer_exchange import BearerExchange
from tailrace.security.sasl.bearer_tokens import INSUFFICIENT_SCOPE, Bearer, BearerError
from tailrace.security.sasl.client_exchange import BearerClient
from tailrace.security.sasl.sasl_steps import Authenticated, Challenge, Refused


def verify(token: str) -> Bearer:
    if token != "good":
        raise BearerError("the token has expired") if token == "old" else BearerError("x", INSUFFICIENT_SCOPE, "a b")
    return Bearer("alice", 7, frozenset())


def test_a_client_with_a_good_token_is_let_in() -> None:
    assert BearerExchange(verify).step(BearerClient("good").first()) == Authenticated(ALICE, expires_ms=7)


def test_extensions_and_the_own_authorization_id_are_allowed() -> None:
    sent = b"n,a=alice,\x01auth=bearer  good\x01traceId=123 4\x01logicalCluster=lkc\x01\x01"
    assert isinstance(BearerExchange(verify).step(sent), Authenticated)
    assert isinstance(BearerExchange(verify).step(sent.replace(b"a=alice", b"a=bob")), Refused)


def test_a_refused_token_is_explained_before_the_client_is_refused() -> None:
    exchange = BearerExchange(verify)
    client = BearerClient("old")
    challenge = exchange.step(client.first())
    assert challenge == Challenge(b'{"status":"invalid_token"}')
    refused = exchange.step(client.step(b'{"status":"invalid_token"}') or b"")
    assert refused == Refused("the token has expired", '{"status":"invalid_token"}')
    challenge = BearerExchange(verify).step(BearerClient("poor").first())
    assert challenge == Challenge(b'{"status":"insufficient_scope","scope":"a b"}')


def test_a_second_token_after_a_refusal_is_not_tried() -> None:
    exchange = BearerExchange(verify)
    exchange.step(BearerClient("old").first())
    assert isinstance(exchange.step(BearerClient("good").first()), Refused)


@pytest.mark.parametrize(
    "sent",
    [b"", b"\xff", b"\x01", b"n,,\x01\x01", b"n,,\x01auth=Basic good\x01\x01", b"n,,\x01auth=Bearer good\x01",
     b"p,,\x01auth=Bearer good\x01\x01", b"n,,\x01auth=Bearer a b\x01\x01", b"n,,\x01auth=Bearer \x01\x01",
     b"n,,\x01auth=Bearer good\x01auth=Bearer old\x01\x01", b"n,,\x01auth=Bearer good\x01bad key=1\x01\x01"],
)  # fmt: skip
def test_a_malformed_message_is_refused(sent: bytes) -> None:
    assert isinstance(BearerExchange(verify).step(sent), Refused)


@pytest.mark.parametrize(
    "data", [b"n,a=%b,\x01auth=Bearer good\x01\x01" % (b"=2C" * 10_000), b"n,,%b\x01" % (b"\x01a=b" * 10_000)]
)
def test_a_long_message_needs_little_memory(data: bytes) -> None:
    exchange = BearerExchange(verify)
    tracemalloc.start()
    try:
        exchange.step(data)
        assert tracemalloc.get_traced_memory()[1] < 64 * len(data) + 10_000
    finally:
        tracemalloc.stop()
