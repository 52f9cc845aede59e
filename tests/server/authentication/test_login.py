"""The cases of Apache Kafka's SaslAuthenticatorTest that concern the server, with its names in docs/security.md."""

import pytest
import trio
from sasl_samples import ALICE, NOW_MS, PASSWORD, token
from sasl_server import TOKEN_HMAC, TOKEN_ID, SaslClient, SaslServer, bearer, plain, scram
from simulation.client import WireClient
from simulation.network import connected_pair
from structlog.testing import capture_logs
from trio.testing import MockClock

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.api_versions import ApiVersionsRequest
from tailrace.protocol.messages.metadata import MetadataRequest
from tailrace.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from tailrace.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tailrace.security.identity.principal import ANONYMOUS
from tailrace.security.records.user_record import UserRecord
from tailrace.security.sasl.client_exchange import ClientExchange
from tailrace.security.sasl.scram_keys import credential_of_password

SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
FAILED = ErrorCode.SASL_AUTHENTICATION_FAILED
WRONG = "Authentication failed: Invalid username or password"


def exchange_of(mechanism: str, password: str = PASSWORD) -> ClientExchange:
    if mechanism == "OAUTHBEARER":
        return bearer(token() if password == PASSWORD else "x.y.z")
    return plain(password=password) if mechanism == "PLAIN" else scram(mechanism, password=password)


async def fails(client: SaslClient, exchange: ClientExchange, mechanism: str) -> str:
    """Logs in with wrong credentials; returns what the client is told."""
    answer = await client.log_in(exchange, mechanism)
    assert answer.error_code == FAILED and answer.session_lifetime_ms == 0
    assert await client.is_closed()
    return str(answer.error_message)


@pytest.mark.parametrize("mechanism", ["PLAIN", SHA_256, SHA_512, "OAUTHBEARER"])
@pytest.mark.parametrize("handshake", [0, 1])
@pytest.mark.parametrize("asks_versions", [True, False])
async def test_a_client_with_valid_credentials_is_served(
    autojump_clock: MockClock, mechanism: str, handshake: int, asks_versions: bool
) -> None:
    server = SaslServer()
    async with server.connected() as client:
        if asks_versions:
            assert (await client.versions()).error_code == 0
        answer = await client.log_in(exchange_of(mechanism), mechanism, handshake=handshake)
        assert answer.error_code == 0
        assert (server.identity.principal, server.identity.mechanism) == (ALICE, mechanism)
        assert (await client.metadata()).cluster_id is not None
        assert (server.counts.succeeded_logins, server.counts.failed_logins) == (1, 0)


@pytest.mark.parametrize("mechanism", ["PLAIN", SHA_256, SHA_512])
async def test_wrong_credentials_are_refused_and_logged_without_the_password(
    autojump_clock: MockClock, mechanism: str
) -> None:
    server = SaslServer()
    with capture_logs() as logs:
        async with server.connected() as client:
            message = await fails(client, exchange_of(mechanism, "wrong-secret"), mechanism)
    (line,) = [line for line in logs if line["event"] == "authentication_failed"]
    assert (line["user"], line["mechanism"], line["reason"]) == ("alice", mechanism, "the password is wrong")
    assert "wrong-secret" not in message + str(logs)
    assert server.identity.principal == ANONYMOUS


@pytest.mark.parametrize("mechanism", ["PLAIN", SHA_256])
@pytest.mark.parametrize("handshake", [0, 1])
async def test_older_clients_with_wrong_credentials_are_disconnected(
    autojump_clock: MockClock, mechanism: str, handshake: int
) -> None:
    async with SaslServer().connected() as client:
        answer = await client.log_in(exchange_of(mechanism, "wrong"), mechanism, handshake=handshake, version=0)
        assert answer.error_code in (-1, FAILED)
        assert await client.is_closed()


async def test_an_unknown_user_is_told_the_same_as_one_with_a_wrong_password(autojump_clock: MockClock) -> None:
    told = set()
    for name in ("alice", "mallory"):
        for mechanism in ("PLAIN", SHA_256):
            async with SaslServer().connected() as client:
                exchange = plain(name, "x") if mechanism == "PLAIN" else scram(mechanism, name, "x")
                told.add((mechanism, await fails(client, exchange, mechanism)))
    assert told == {
        ("PLAIN", WRONG),
        (
            SHA_256,
            f"Authentication failed during authentication due to invalid credentials with SASL mechanism {SHA_256}",
        ),
    }


@pytest.mark.parametrize(
    ("name", "password", "message"),
    [
        ("", "secret", "Authentication failed: username not specified"),
        ("alice", "", "Authentication failed: password not specified"),
    ],
)
async def test_a_missing_name_or_password_is_named(
    autojump_clock: MockClock, name: str, password: str, message: str
) -> None:
    async with SaslServer().connected() as client:
        assert await fails(client, plain(name, password), "PLAIN") == message


async def test_a_user_without_a_credential_for_the_mechanism_is_refused(autojump_clock: MockClock) -> None:
    server = SaslServer()
    server.host.cluster.security.put(UserRecord("alice", (credential_of_password(SHA_512, PASSWORD, b"salt"),)))
    async with server.connected() as client:
        await fails(client, scram(SHA_256), SHA_256)
    async with server.connected() as client:
        assert (await client.log_in(scram(SHA_512), SHA_512)).error_code == 0
    async with server.connected() as client:
        assert (await client.log_in(plain(), "PLAIN")).error_code == 0, "PLAIN uses any credential"


async def test_a_name_may_have_special_characters(autojump_clock: MockClock) -> None:
    name, server = "special user= test,scram", SaslServer()
    server.host.cluster.security.put(UserRecord(name, (credential_of_password(SHA_256, PASSWORD, b"salt"),)))
    async with server.connected() as client:
        assert (await client.log_in(scram(SHA_256, name), SHA_256)).error_code == 0
        assert server.identity.principal.name == name


async def test_a_changed_password_counts_at_the_next_login(autojump_clock: MockClock) -> None:
    server = SaslServer()
    for mechanism in ("PLAIN", SHA_256):
        async with server.connected() as client:
            assert (await client.log_in(exchange_of(mechanism), mechanism)).error_code == 0
    server.host.cluster.security.put(UserRecord("alice", (credential_of_password(SHA_256, "new", b"salt"),)))
    for mechanism in ("PLAIN", SHA_256):
        async with server.connected() as client:
            await fails(client, exchange_of(mechanism), mechanism)
        async with server.connected() as client:
            assert (await client.log_in(exchange_of(mechanism, "new"), mechanism)).error_code == 0
    server.host.cluster.security.remove("user", "alice")
    async with server.connected() as client:
        await fails(client, exchange_of("PLAIN", "new"), "PLAIN")


async def test_only_enabled_mechanisms_may_be_chosen(autojump_clock: MockClock) -> None:
    server = SaslServer(sasl_enabled_mechanisms="SCRAM-SHA-256,PLAIN")
    for mechanism in (SHA_512, "INVALID", ""):
        async with server.connected() as client:
            answer = await client.shake(mechanism)
            assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
            assert answer.mechanisms == [SHA_256, "PLAIN"]
            assert await client.is_closed()


async def test_the_handshake_answers_versions_that_it_does_not_know_by_closing(autojump_clock: MockClock) -> None:
    async with SaslServer().connected() as client:
        await client.wire.send(b"\0\0\0\x0a" + b"\0\x11\0\x09" + b"\0\0\0\1" + b"\0\0")
        assert await client.is_closed()
    async with SaslServer().connected() as client:
        assert (await client.shake("PLAIN", 0)).error_code == 0, "another connection is not affected"


@pytest.mark.parametrize("handshake", [0, 1])
async def test_api_versions_are_answered_before_the_login(autojump_clock: MockClock, handshake: int) -> None:
    async with SaslServer().connected() as client:
        keys = {api.api_key: api.max_version for api in (await client.versions()).api_keys}
        assert (keys[ApiKey.SASL_HANDSHAKE], keys[ApiKey.SASL_AUTHENTICATE]) == (1, 2)
        assert (await client.log_in(plain(), "PLAIN", handshake=handshake)).error_code == 0


async def test_an_unknown_version_of_api_versions_is_answered_and_the_login_goes_on(autojump_clock: MockClock) -> None:
    async with SaslServer().connected() as client:
        await client.wire.send(b"\0\0\0\x0b" + b"\0\x12\0\x7f" + b"\0\0\0\1" + b"\0\0\0")
        frame = await client.wire.frame()
        assert frame is not None and frame[4:6] == b"\0\x23"  # UNSUPPORTED_VERSION
        assert (await client.versions()).error_code == 0
        assert (await client.log_in(plain(), "PLAIN")).error_code == 0


async def test_an_invalid_name_of_software_is_refused_and_the_login_goes_on(autojump_clock: MockClock) -> None:
    server = SaslServer()
    async with server.connected() as client:
        assert (await client.versions(client_software_name="  ")).error_code == ErrorCode.INVALID_REQUEST
        assert (await client.versions(client_software_name="apache-kafka-java")).error_code == 0
        assert (await client.log_in(plain(), "PLAIN")).error_code == 0
        assert server.identity.software_name == "apache-kafka-java"


async def test_api_versions_after_the_handshake_are_refused(autojump_clock: MockClock) -> None:
    async with SaslServer().connected() as client:
        await client.shake("PLAIN")
        await client.wire.send(client.wire.encode(ApiKey.API_VERSIONS, 0, ApiVersionsRequest()))
        assert await client.is_closed()


async def test_a_second_handshake_gets_an_error_before_the_connection_closes(autojump_clock: MockClock) -> None:
    async with SaslServer().connected() as client:
        assert (await client.shake("PLAIN")).error_code == ErrorCode.NONE
        assert (await client.shake("PLAIN")).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert await client.is_closed()


@pytest.mark.parametrize("after_handshake", [True, False])
async def test_other_requests_before_the_login_are_refused_with_one_line(
    autojump_clock: MockClock, after_handshake: bool
) -> None:
    with capture_logs() as logs:
        async with SaslServer().connected() as client:
            if after_handshake:
                await client.shake("PLAIN")
            await client.wire.send(client.wire.encode(ApiKey.METADATA, 12, MetadataRequest([])))
            assert await client.is_closed()
    (line,) = [line for line in logs if line["log_level"] == "warning"]
    assert line["event"] == "request_refused" and "must log in first" in line["reason"]


async def test_a_token_before_the_handshake_is_refused(autojump_clock: MockClock) -> None:
    async with SaslServer().connected() as client:
        await client.wire.send(client.wire.encode(ApiKey.SASL_AUTHENTICATE, 1, SaslAuthenticateRequest(b"x")))
        assert await client.is_closed()


@pytest.mark.parametrize("sent", [b"", b"\0", b"hello world", b"\x60\x82\x02\x3f", b"\xff" * 100])
@pytest.mark.parametrize("mechanism", [None, "PLAIN", SHA_256, "OAUTHBEARER"])
async def test_bytes_that_are_no_request_or_token_close_only_their_connection(
    autojump_clock: MockClock, sent: bytes, mechanism: str | None
) -> None:
    server = SaslServer()
    async with server.connected() as good:
        async with server.connected() as client:
            if mechanism is not None:
                await client.shake(mechanism, 0)
            assert await client.raw(sent) is None
        assert (await good.log_in(plain(), "PLAIN")).error_code == 0


async def test_a_request_before_the_login_has_a_limit_of_its_own(autojump_clock: MockClock) -> None:
    server = SaslServer(sasl_server_max_receive_size="1024")
    began = trio.current_time()
    for size in (1024 + 1, 2**31 - 1):
        async with server.connected() as client:
            await client.wire.send(size.to_bytes(4, "big"))
            assert await client.is_closed()
    async with server.connected() as client:
        await client.shake("PLAIN")
        await client.wire.send((2000).to_bytes(4, "big"))
        assert await client.is_closed()
    assert trio.current_time() - began < 1, "the server does not wait for the rest"
    async with server.connected() as client:
        assert (await client.log_in(plain(), "PLAIN")).error_code == 0
        await client.wire.send((2000).to_bytes(4, "big") + bytes(10))
        await trio.testing.wait_all_tasks_blocked()
        assert client.wire.connection.receive_into(memoryview(bytearray(1))) is None, "the limit ends with the login"


async def test_requests_that_come_together_are_handled_in_their_order(autojump_clock: MockClock) -> None:
    async with SaslServer().connected() as client:
        wire = client.wire
        await wire.send(
            wire.encode(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
            + wire.encode(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN"))
            + wire.encode(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(plain().first()))
            + wire.encode(ApiKey.METADATA, 12, MetadataRequest([]))
        )
        codes = [(await wire.response()).error_code for _ in range(3)]
        assert codes == [0, 0, 0]
        assert (await wire.response()).cluster_id is not None


async def test_a_failed_login_is_answered_late_and_others_are_served_meanwhile(autojump_clock: MockClock) -> None:
    server = SaslServer(connection_failed_authentication_delay_ms="5000")
    async with server.connected() as client, server.connected() as other:
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fails, client, plain("alice", "wrong"), "PLAIN")
            await other.log_in(plain(), "PLAIN")
            assert trio.current_time() - began < 0.1
        assert trio.current_time() - began >= 5


async def test_a_client_that_does_not_log_in_is_disconnected(autojump_clock: MockClock) -> None:
    async with SaslServer().connected() as client:
        began = trio.current_time()
        await client.versions()
        assert await client.is_closed()
        assert 29 < trio.current_time() - began < 31
    async with SaslServer().connected() as client:
        await client.log_in(plain(), "PLAIN")
        await trio.sleep(100)
        assert (await client.metadata()).cluster_id is not None


async def test_delegation_tokens_act_as_their_owner_until_they_expire(autojump_clock: MockClock) -> None:
    server = SaslServer()
    async with server.connected() as client:
        answer = await client.log_in(scram(SHA_256, TOKEN_ID, TOKEN_HMAC, is_token=True), SHA_256)
        assert (answer.error_code, answer.session_lifetime_ms) == (0, 60_000)
        assert (server.identity.principal, server.identity.is_token) == (ALICE, True)
    for exchange in (
        scram(SHA_256, TOKEN_ID, "wrong", is_token=True),
        scram(SHA_256, "unknown", TOKEN_HMAC, is_token=True),
        scram(SHA_256, TOKEN_ID, TOKEN_HMAC),
    ):
        async with server.connected() as client:
            await fails(client, exchange, SHA_256)
    server.clock.ms += 60_000
    async with server.connected() as client:
        await fails(client, scram(SHA_256, TOKEN_ID, TOKEN_HMAC, is_token=True), SHA_256)


async def test_a_login_with_a_delegation_token_can_be_repeated(autojump_clock: MockClock) -> None:
    async with SaslServer().connected() as client:
        for _ in range(2):
            answer = await client.log_in(scram(SHA_256, TOKEN_ID, TOKEN_HMAC, is_token=True), SHA_256)
            assert answer.error_code == 0
            await trio.sleep(2)


async def test_a_bearer_token_that_is_refused_is_explained(autojump_clock: MockClock) -> None:
    server = SaslServer(sasl_oauthbearer_required_scope="read")
    async with server.connected() as client:
        assert (
            await fails(client, bearer(token(exp=NOW_MS // 1000 - 100)), "OAUTHBEARER") == '{"status":"invalid_token"}'
        )
    async with server.connected() as client:
        message = await fails(client, bearer(token(scope="write")), "OAUTHBEARER")
        assert message == '{"status":"insufficient_scope","scope":"read"}'


async def test_a_bearer_token_with_a_new_key_makes_the_server_read_the_keys_again(autojump_clock: MockClock) -> None:
    from sasl_samples import ec_jwk, key_set, rsa_jwk

    server = SaslServer()
    server.keys = key_set(ec_jwk())
    async with server.connected() as client:
        await fails(client, exchange_of("OAUTHBEARER"), "OAUTHBEARER")
        assert server.downloads == 1
    server.keys = key_set(ec_jwk(), rsa_jwk())
    await trio.sleep(11)
    async with server.connected() as client:
        assert (await client.log_in(exchange_of("OAUTHBEARER"), "OAUTHBEARER")).error_code == 0
        assert server.downloads == 2


@pytest.mark.parametrize("mechanism", ["PLAIN", SHA_256, "OAUTHBEARER"])
async def test_a_session_ends_unless_the_client_logs_in_again(autojump_clock: MockClock, mechanism: str) -> None:
    server = SaslServer(connections_max_reauth_ms="5000")
    async with server.connected() as client:
        answer = await client.log_in(exchange_of(mechanism), mechanism)
        assert answer.session_lifetime_ms == 5000
        await trio.sleep(4)
        assert (await client.log_in(exchange_of(mechanism), mechanism)).session_lifetime_ms == 5000
        await trio.sleep(4)
        assert (await client.metadata()).cluster_id is not None
        await trio.sleep(2)
        await client.wire.send(client.wire.encode(ApiKey.METADATA, 12, MetadataRequest([])))
        assert await client.is_closed()
    assert vars(server.counts) == {"succeeded_logins": 2, "failed_logins": 0, "repeated_logins": 1, "expired_logins": 1}


async def test_a_client_may_log_in_again_although_its_session_has_ended(autojump_clock: MockClock) -> None:
    server = SaslServer(connections_max_reauth_ms="5000")
    async with server.connected() as client:
        await client.log_in(plain(), "PLAIN")
        await trio.sleep(60)
        assert (await client.log_in(plain(), "PLAIN")).error_code == 0
        assert (await client.metadata()).cluster_id is not None


async def test_a_session_of_a_client_that_cannot_log_in_again_ends_as_well(autojump_clock: MockClock) -> None:
    for handshake, version in ((0, 0), (1, 0)):
        server = SaslServer(connections_max_reauth_ms="5000")
        async with server.connected() as client:
            await client.log_in(plain(), "PLAIN", handshake=handshake, version=version)
            assert (await client.metadata()).cluster_id is not None
            await trio.sleep(6)
            await client.wire.send(client.wire.encode(ApiKey.METADATA, 12, MetadataRequest([])))
            assert await client.is_closed()


async def test_a_repeated_login_cannot_change_the_user(autojump_clock: MockClock) -> None:
    server = SaslServer()
    server.host.cluster.security.put(UserRecord("bob", (credential_of_password(SHA_256, "bob", b"salt"),)))
    async with server.connected() as client:
        await client.log_in(scram(SHA_256), SHA_256)
        await trio.sleep(2)
        message = await fails(client, scram(SHA_256, "bob", "bob"), SHA_256)
        assert message == "Cannot change principals during re-authentication from User.alice: User.bob"
        assert server.identity.principal == ALICE


async def test_a_repeated_login_cannot_change_the_mechanism(autojump_clock: MockClock) -> None:
    async with SaslServer().connected() as client:
        await client.log_in(scram(SHA_256), SHA_256)
        await trio.sleep(2)
        assert "is not supported for re-authentication" in await fails(client, plain(), "PLAIN")


async def test_a_login_cannot_be_repeated_within_a_second(autojump_clock: MockClock) -> None:
    async with SaslServer().connected() as client:
        await client.log_in(plain(), "PLAIN")
        await trio.sleep(0.5)
        assert (await client.shake("PLAIN")).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert (await client.metadata()).cluster_id is not None
        await trio.sleep(0.6)
        assert (await client.log_in(plain(), "PLAIN")).error_code == 0


async def test_requests_that_come_together_with_a_repeated_login_are_no_exception(autojump_clock: MockClock) -> None:
    async with SaslServer().connected() as client:
        await client.log_in(plain(), "PLAIN")
        await client.metadata()
        await trio.sleep(2)
        wire = client.wire
        shake = wire.encode(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN"))
        prove = wire.encode(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(plain().first()))
        await wire.send(shake + prove + wire.encode(ApiKey.METADATA, 12, MetadataRequest([])))
        assert [(await wire.response()).error_code for _ in range(2)] == [0, 0]
        assert (await wire.response()).cluster_id is not None
        await trio.sleep(2)
        shake = wire.encode(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("PLAIN"))
        await wire.send(shake + wire.encode(ApiKey.METADATA, 12, MetadataRequest([])))
        assert (await wire.response()).error_code == 0
        assert await client.is_closed()


async def test_other_requests_during_a_repeated_login_are_refused(autojump_clock: MockClock) -> None:
    async with SaslServer().connected() as client:
        await client.log_in(plain(), "PLAIN")
        await trio.sleep(2)
        await client.shake("PLAIN")
        await client.wire.send(client.wire.encode(ApiKey.METADATA, 12, MetadataRequest([])))
        assert await client.is_closed()


async def test_a_listener_without_sasl_says_so(autojump_clock: MockClock) -> None:
    async with SaslServer().connected(with_sasl=False) as client:
        assert (await client.shake("PLAIN")).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert (await client.token(b"x")).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert (await client.metadata()).cluster_id is not None


async def test_a_client_is_a_newcomer_until_it_has_logged_in(autojump_clock: MockClock) -> None:
    """A full server closes newcomers first."""
    server = SaslServer()
    client_side, server_side = connected_pair()
    connection = server.accept(server_side)
    connection.begin_in_line()
    client = SaslClient(WireClient(client_side))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.run)
        await client.versions()
        assert connection.is_newcomer
        await client.log_in(exchange_of("PLAIN"), "PLAIN")
        assert not connection.is_newcomer
        nursery.cancel_scope.cancel()
