"""Tests the bounds of a connection before its login: how long it may take, and how large its requests may be."""

import trio
from msgspec import Struct
from sasl_server import REQUEST_BYTES_MAX, SaslServer, plain
from trio.testing import MockClock

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tailrace.server.authentication.login import Login
from tailrace.server.authentication.login_gate import LOGIN_SECONDS_MAX, LoginGate, encode_raw_token
from tailrace.server.inbox import Inbox, ReceiveBuffers


class _Gate(Struct):
    login: Login
    inbox: Inbox
    serving: trio.CancelScope
    gate: LoginGate


def _gate(request_bytes_max: int) -> _Gate:
    login = Login(SaslServer().authenticators)
    inbox, serving = Inbox(ReceiveBuffers(), request_bytes_max), trio.CancelScope()
    return _Gate(login, inbox, serving, LoginGate(login, inbox, serving))


async def test_the_bounds_stay_until_the_client_has_logged_in(mock_clock: MockClock) -> None:
    gated = _gate(1_000_000)
    assert gated.serving.deadline == trio.current_time() + LOGIN_SECONDS_MAX
    gated.gate.lift_if_logged_in()
    assert gated.serving.deadline == trio.current_time() + LOGIN_SECONDS_MAX
    assert gated.inbox.limit(1_000_000) == gated.login.message_bytes_max


async def test_a_client_that_does_not_log_in_is_closed_and_one_that_has_stays(autojump_clock: MockClock) -> None:
    server = SaslServer()
    async with server.connected() as silent, server.connected() as other:
        assert (await other.log_in(plain(), "PLAIN")).error_code == ErrorCode.NONE
        began = trio.current_time()
        assert await silent.is_closed()
        assert trio.current_time() - began == LOGIN_SECONDS_MAX
        await trio.sleep(LOGIN_SECONDS_MAX)
        assert (await other.metadata()).cluster_id is not None


async def test_large_requests_need_a_login(autojump_clock: MockClock) -> None:
    server = SaslServer()
    topics = [MetadataRequestTopic(name="x" * 30_000)] * 20
    assert server.authenticators.settings.message_bytes_max < 20 * 30_000 < REQUEST_BYTES_MAX
    async with server.connected() as client, server.connected() as stranger:
        assert (await client.log_in(plain(), "PLAIN")).error_code == ErrorCode.NONE
        assert len((await client.wire.request(ApiKey.METADATA, 12, MetadataRequest(topics))).topics) == 1
        await stranger.wire.send((20 * 30_000).to_bytes(4, "big"))
        assert await stranger.is_closed()


def test_an_answer_without_a_header_is_its_size_and_the_bytes() -> None:
    assert encode_raw_token(7, b"token") == [b"\x00\x00\x00\x05token"]
