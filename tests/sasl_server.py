"""A server with SASL on a connection in memory: real connections, handlers and mechanisms, and scripted clients."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import structlog
import trio
from hosts import ControllerHost
from msgspec import Struct
from quota_samples import server_quotas
from sasl_samples import NOW_MS, PASSWORD, alice, key_set
from simulation.client import WireClient
from simulation.network import connected_pair

from tailrace.cluster.advertised_addresses import ConnectedListener
from tailrace.protocol.apis import API_TABLE, ApiKey
from tailrace.protocol.codec.compile import decoder
from tailrace.protocol.messages.api_versions import ApiVersionsRequest
from tailrace.protocol.messages.metadata import MetadataRequest
from tailrace.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tailrace.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tailrace.runtime.chance import Chance, RandomChance
from tailrace.runtime.files import RealFiles, UnreadableError
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.network import Connection
from tailrace.runtime.workers.hard_work import DirectWorker
from tailrace.security.records.token_record import TokenRecord
from tailrace.security.records.user_record import UserRecord
from tailrace.security.sasl.client_exchange import BearerClient, ClientExchange, PlainClient, ScramClient
from tailrace.security.sasl.scram_keys import SCRAM_MECHANISMS, credential_of_password
from tailrace.security.settings.sasl_settings import parse_sasl_settings
from tailrace.security.settings.setting_texts import SettingTexts
from tailrace.server import handlers
from tailrace.server.authentication.authenticators import Authenticators
from tailrace.server.authentication.bearer_key_source import BearerKeySource
from tailrace.server.authentication.login import Login
from tailrace.server.authentication.login_log import LoginLog
from tailrace.server.client_connection import ClientConnection
from tailrace.server.fairness.request_memory import RequestMemory
from tailrace.server.foreign_clients import ForeignClients
from tailrace.server.inbox import Inbox, ReceiveBuffers
from tailrace.server.request_context import ClientIdentity
from tailrace.server.request_routes import Route
from tailrace.server.server_metrics import LoginCounts, ServerMetrics

ALL_MECHANISMS = "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN,OAUTHBEARER"
SETTINGS: Mapping[str, str] = {
    "sasl.enabled.mechanisms": ALL_MECHANISMS,
    "sasl.oauthbearer.jwks.endpoint.url": "file:///nowhere",
    "sasl.oauthbearer.expected.audience": "tailrace",
}
TOKEN_ID, TOKEN_HMAC = "token-1", "aG1hYw=="
REQUEST_BYTES_MAX = 1_000_000


class FixedClock:
    """A wall clock that tests set."""

    def __init__(self) -> None:
        self.ms = NOW_MS

    def now_ms(self) -> int:
        return self.ms


class SaslServer:
    """The server: a user alice, a delegation token of hers, and the keys of bearer tokens."""

    def __init__(
        self, chance: Chance | None = None, logger: FilteringBoundLogger | None = None, **settings: str
    ) -> None:
        """Prepares the server. `settings` are Kafka's names, with underscores in place of dots."""
        given = dict(SETTINGS) | {name.replace("_", "."): text for name, text in settings.items()}
        if "OAUTHBEARER" not in given["sasl.enabled.mechanisms"]:
            del given["sasl.oauthbearer.jwks.endpoint.url"]
        self.host = ControllerHost()
        tables = self.host.cluster.security
        tables.put(UserRecord("alice", tuple(alice(mechanism) for mechanism in SCRAM_MECHANISMS)))
        hmac = tuple(credential_of_password(mechanism, TOKEN_HMAC, b"token salt") for mechanism in SCRAM_MECHANISMS)
        tables.put(TokenRecord(TOKEN_ID, "User:alice", "User:alice", hmac, (), 0, NOW_MS + 60_000, NOW_MS + 90_000))
        self.clock = FixedClock()
        self.counts = LoginCounts()
        self.logger: FilteringBoundLogger = logger or structlog.get_logger()
        self.log = LoginLog(self.counts, self.logger)
        parsed = parse_sasl_settings(SettingTexts(given), "PUBLIC")
        keys = BearerKeySource("https://keys.example/", 3600.0, RealFiles(), self._download, self.log)
        self.authenticators = Authenticators(
            parsed, tables, chance or RandomChance(1), self.clock, DirectWorker(), self.log, keys
        )
        self.keys = key_set()
        self.downloads = 0
        self.identity = ClientIdentity("192.0.2.1:5", host="192.0.2.1")
        self._routes: dict[tuple[int, int], Any] = {}
        self._buffers = ReceiveBuffers()
        self.memory = RequestMemory(10 * REQUEST_BYTES_MAX)
        self.metrics = ServerMetrics(API_TABLE)

    async def _download(self, url: str) -> bytes:
        self.downloads += 1
        return self.keys

    def route(self, api_key: int, api_version: int) -> Route | None:
        api = API_TABLE.get(api_key)
        if api is None or not api.serves(api_version) or api_key not in handlers.SHARED:
            return None
        return Route(decoder(api.request, api_version), partial(handlers.load(api_key), self.host))

    def end_turn(self) -> None:
        pass

    def partition_count(self) -> int:
        return 1

    def on_unreadable(self, error: UnreadableError) -> None:
        raise AssertionError("no files are sent from here") from error

    def accept(self, connection: Connection, *, with_sasl: bool = True) -> ClientConnection:
        """Returns the server's side of a new client."""
        login = Login(self.authenticators) if with_sasl else None
        self.identity = ClientIdentity("192.0.2.1:5", host="192.0.2.1", login=login)
        return ClientConnection(
            connection,
            ConnectedListener("PUBLIC", ("localhost", 9092)),
            self,
            API_TABLE,
            self._routes,
            Inbox(self._buffers, REQUEST_BYTES_MAX),
            self.memory,
            self.metrics,
            ForeignClients(),
            self.logger,
            self.identity,
            quotas=server_quotas(),
        )

    @asynccontextmanager
    async def connected(self, *, with_sasl: bool = True) -> AsyncIterator["SaslClient"]:
        """Yields a new client."""
        client_side, server_side = connected_pair()
        connection = self.accept(server_side, with_sasl=with_sasl)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.run)
            yield SaslClient(WireClient(client_side))
            nursery.cancel_scope.cancel()


class SaslClient(Struct):
    """A client that sends what a test says, in any order."""

    wire: WireClient

    async def versions(self, version: int = 3, **given: str) -> Any:
        request = ApiVersionsRequest(**({"client_software_name": "test", "client_software_version": "1"} | given))
        return await self.wire.request(ApiKey.API_VERSIONS, version, request)

    async def shake(self, mechanism: str, version: int = 1) -> SaslHandshakeResponse:
        answer: SaslHandshakeResponse = await self.wire.request(
            ApiKey.SASL_HANDSHAKE, version, SaslHandshakeRequest(mechanism)
        )
        return answer

    async def token(self, data: bytes, version: int = 2) -> SaslAuthenticateResponse:
        answer: SaslAuthenticateResponse = await self.wire.request(
            ApiKey.SASL_AUTHENTICATE, version, SaslAuthenticateRequest(data)
        )
        return answer

    async def raw(self, data: bytes) -> bytes | None:
        """Sends bytes without a header of a request; returns the answer, or None if the server closes."""
        await self.wire.send(len(data).to_bytes(4, "big") + data)
        try:
            return await self.wire.frame()
        except ConnectionResetError:
            return None

    async def metadata(self) -> Any:
        return await self.wire.request(ApiKey.METADATA, 12, MetadataRequest([]))

    async def log_in(
        self, exchange: ClientExchange, mechanism: str, *, handshake: int = 1, version: int = 2
    ) -> SaslAuthenticateResponse:
        """Logs in as a client does; returns the last answer. After handshake 0, tokens have no headers."""
        await self.shake(mechanism, handshake)
        data: bytes | None = exchange.first()
        answer = SaslAuthenticateResponse()
        while data is not None:
            if handshake:
                answer = await self.token(data, version)
                if answer.error_code:
                    return answer
                data = exchange.step(answer.auth_bytes)
            else:
                received = await self.raw(data)
                if received is None:
                    return SaslAuthenticateResponse(error_code=-1)
                data = exchange.step(received)
        return answer

    async def is_closed(self) -> bool:
        return await self.wire.at_end()


def plain(name: str = "alice", password: str = PASSWORD) -> ClientExchange:
    return PlainClient(name, password)


def scram(mechanism: str, name: str = "alice", password: str = PASSWORD, *, is_token: bool = False) -> ClientExchange:
    return ScramClient(mechanism, name, password, "client-nonce", is_token=is_token)


def bearer(token: str) -> ClientExchange:
    return BearerClient(token)
