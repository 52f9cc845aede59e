from typing import Any

import pytest
from scripted_brokers import ScriptedBroker, ScriptedBrokers, scripted_brokers

from tailrace.client.plain_login import LOGIN_APIS, Credentials
from tailrace.client.server_connection import RefusedError
from tailrace.client.spu_client import BOOTSTRAP, SpuClient
from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tailrace.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tailrace.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

KEY = "secret-key"


class _Broker:
    """Answers logins as a listener of Apache Kafka does."""

    def __init__(self, handshake: ErrorCode = ErrorCode.NONE) -> None:
        self.handshake = handshake
        self.tokens: list[bytes] = []

    def __call__(self, broker: ScriptedBroker, request: Any) -> Any:
        match request:
            case SaslHandshakeRequest():
                return SaslHandshakeResponse(self.handshake, ["SCRAM-SHA-256"])
            case SaslAuthenticateRequest():
                self.tokens.append(request.auth_bytes)
                if request.auth_bytes == f"\0me\0{KEY}".encode():
                    return SaslAuthenticateResponse(error_message=None)
                return SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, "Invalid username or password")
        return ListGroupsResponse()


def _client(cluster: ScriptedBrokers, key: str | None = KEY) -> SpuClient:
    for broker in cluster.brokers.values():
        broker.versions |= dict.fromkeys(LOGIN_APIS, (0, 2))
    credentials = None if key is None else Credentials("me", key)
    return SpuClient(cluster.network, cluster.bootstrap, BOOTSTRAP, credentials)


async def test_the_access_key_is_the_password_of_plain_at_every_broker() -> None:
    script = _Broker()
    async with scripted_brokers(script, 1, 2) as cluster:
        client = _client(cluster)
        await client.metadata()
        await client.ask(2, ListGroupsRequest())
        assert script.tokens == [b"\0me\0secret-key"] * 2
        assert client.asks_for_credentials
        assert cluster.brokers[2].heard[-1] == ListGroupsRequest()
        client.close()


async def test_a_wrong_key_fails_clearly() -> None:
    async with scripted_brokers(_Broker()) as cluster:
        client = _client(cluster, "wrong")
        with pytest.raises(RefusedError) as caught:
            await client.metadata()
        address = cluster.brokers[1].address
        assert str(caught.value) == (
            f"the broker at {address} does not accept the access key of the user me: Invalid username or password"
        )
        assert caught.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED
        client.close()


async def test_a_broker_without_plain_says_what_it_has() -> None:
    script = _Broker(ErrorCode.UNSUPPORTED_SASL_MECHANISM)
    async with scripted_brokers(script) as cluster:
        client = _client(cluster)
        with pytest.raises(RefusedError, match=r"takes no access key with SASL/PLAIN; its mechanisms are: SCRAM"):
            await client.metadata()
        assert script.tokens == [], "the key never left"
        client.close()


@pytest.mark.parametrize("lists_it", [True, False])
async def test_a_broker_that_asks_for_no_key_gets_none(lists_it: bool) -> None:
    script = _Broker(ErrorCode.ILLEGAL_SASL_STATE)
    async with scripted_brokers(script) as cluster:
        client = _client(cluster)
        if not lists_it:
            for key in LOGIN_APIS:
                del cluster.brokers[1].versions[key]
        await client.metadata()
        assert script.tokens == []
        assert client.asks_for_credentials is False
        client.close()


async def test_a_client_without_credentials_does_not_log_in() -> None:
    async with scripted_brokers(_Broker()) as cluster:
        client = _client(cluster, None)
        await client.metadata()
        assert [each.API_KEY for each in cluster.brokers[1].heard] == [ApiKey.METADATA]
        assert client.asks_for_credentials is None
        client.close()


async def test_another_client_of_the_cluster_has_the_same_credentials() -> None:
    script = _Broker()
    async with scripted_brokers(script) as cluster:
        client = _client(cluster)
        other = client.another()
        await other.metadata()
        assert script.tokens == [b"\0me\0secret-key"]
        other.close()
        client.close()


def test_credentials_are_never_shown() -> None:
    assert KEY not in repr(Credentials("me", KEY))
