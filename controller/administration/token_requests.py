"""Carries out the requests about delegation tokens, and removes expired tokens."""

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.configs.token_config_table import EXPIRY, LIFETIME_MAX, SECRET_KEY
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.runtime.chance import Chance
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.wall_clock import WallClock
from tailrace.security.identity.principal import Principal
from tailrace.security.records.security_records import TOKEN, SecurityRecord
from tailrace.security.records.security_tables import SecurityTables
from tailrace.security.records.token_record import TokenRecord
from tailrace.security.settings.secret import Secret
from tailrace.security.tokens.token_rules import TokenSettings, expired, has_expired, new_token, renewed
from tailrace.server.administration import SecurityEdit
from tailrace.server.token_administration import IssuedToken

TOKENS_PER_REQUESTER_MAX = 1000
"""How many tokens a principal may have created. Each of them is in the memory of every server."""


class ChangeSecurity(Protocol):
    """Stores records; see `Administration.change_security`."""

    def __call__(
        self,
        puts: Sequence[SecurityRecord] = (),
        removals: Sequence[tuple[str, str]] = (),
        edits: Sequence[SecurityEdit] = (),
    ) -> Awaitable[list[KafkaError | None]]: ...


class TokenRequests:
    """Implements `TokenAdministration` on the Streaming Controller."""

    def __init__(
        self,
        change: ChangeSecurity,
        tables: SecurityTables,
        configs: BrokerConfigs,
        wall_clock: WallClock,
        chance: Chance,
        logger: FilteringBoundLogger,
    ) -> None:
        self._change = change
        self._tables = tables
        self._configs = configs
        self._wall_clock = wall_clock
        self._chance = chance
        self._logger = logger
        self._hmacs = _Hmacs(tables)

    async def create(
        self, owner: Principal, requester: Principal, renewers: Sequence[Principal], lifetime_ms: int
    ) -> IssuedToken:
        settings = self._settings
        settings.hmac_of("")  # refuses the request if tokens are turned off
        name = str(requester)
        if sum(each.requester == name for each in self._tables.tokens.values()) >= TOKENS_PER_REQUESTER_MAX:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"{name} has created {TOKENS_PER_REQUESTER_MAX} tokens; expire some that are not needed first",
            )
        token = new_token(
            settings,
            str(self._chance.uuid()),
            owner,
            requester,
            renewers,
            lifetime_ms,
            self._wall_clock.now_ms(),
            lambda: self._chance.uuid().bytes,
        )
        _raise_first(await self._change(puts=[token]))
        self._logger.info("token_created", token=token.id, owner=token.owner, requester=token.requester)
        return IssuedToken(token, settings.hmac_of(token.id))

    async def renew(self, token_hmac: bytes, principal: Principal, period_ms: int) -> int:
        settings = self._settings
        token_id = self._hmacs.find(settings, token_hmac)

        def change(token: TokenRecord) -> TokenRecord:
            return renewed(token, principal, period_ms, settings, self._wall_clock.now_ms())

        changed = await self._edit(token_id, change)
        assert changed is not None
        return changed.expires_ms

    async def expire(self, token_hmac: bytes, principal: Principal, period_ms: int) -> int:
        token_id = self._hmacs.find(self._settings, token_hmac)

        def change(token: TokenRecord) -> TokenRecord | None:
            return expired(token, principal, period_ms, self._wall_clock.now_ms())

        changed = await self._edit(token_id, change)
        if changed is not None:
            return changed.expires_ms
        self._logger.info("token_removed", token=token_id, by=str(principal))
        return self._wall_clock.now_ms()

    def issued(self) -> list[IssuedToken]:
        settings, now_ms = self._settings, self._wall_clock.now_ms()
        settings.hmac_of("")
        tokens = (each for each in self._tables.tokens.values() if not has_expired(each, now_ms))
        return [IssuedToken(each, settings.hmac_of(each.id)) for each in tokens]

    async def forget_expired(self) -> None:
        """Removes tokens that have expired."""
        now_ms = self._wall_clock.now_ms()
        gone = [each.id for each in self._tables.tokens.values() if has_expired(each, now_ms)]
        if gone:
            edits = [SecurityEdit(TOKEN, each, self._unless_renewed) for each in gone]
            removed = sum(outcome is None for outcome in await self._change(edits=edits))
            self._logger.info("expired_tokens_removed", tokens=removed)

    @property
    def _settings(self) -> TokenSettings:
        return token_settings(self._configs)

    def _unless_renewed(self, record: SecurityRecord | None) -> SecurityRecord | None:
        assert record is None or isinstance(record, TokenRecord)
        return None if record is None or has_expired(record, self._wall_clock.now_ms()) else record

    async def _edit(self, token_id: str, change: Callable[[TokenRecord], TokenRecord | None]) -> TokenRecord | None:
        """Changes a stored token, and returns it; None if it was removed."""
        changed: TokenRecord | None = None

        def edit(record: SecurityRecord | None) -> TokenRecord | None:
            nonlocal changed
            if record is None:
                raise _not_found()
            assert isinstance(record, TokenRecord)
            changed = change(record)
            return changed

        _raise_first(await self._change(edits=[SecurityEdit(TOKEN, token_id, edit)]))
        return changed


class _Hmacs:
    """Finds tokens by their HMACs. Only hashes of HMACs are kept."""

    def __init__(self, tables: SecurityTables) -> None:
        self._tables = tables
        self._version = -1
        self._hashes: dict[str, bytes] = {}
        self._ids: dict[bytes, str] = {}

    def find(self, settings: TokenSettings, token_hmac: bytes) -> str:
        """Returns the id of the token. Raises KafkaError if there is none."""
        settings.hmac_of("")
        if self._version != self._tables.versions[TOKEN]:
            self._refresh(settings)
        token_id = self._ids.get(hashlib.sha256(token_hmac).digest())
        if token_id is None:
            raise _not_found()
        return token_id

    def _refresh(self, settings: TokenSettings) -> None:
        tokens = self._tables.tokens
        for gone in self._hashes.keys() - tokens.keys():
            del self._ids[self._hashes.pop(gone)]
        for new in tokens.keys() - self._hashes.keys():
            self._hashes[new] = hashlib.sha256(settings.hmac_of(new)).digest()
            self._ids[self._hashes[new]] = new
        self._version = self._tables.versions[TOKEN]


def token_settings(configs: BrokerConfigs) -> TokenSettings:
    """Returns the settings of delegation tokens."""
    secret = configs.value(SECRET_KEY)
    assert secret is None or isinstance(secret, str)
    return TokenSettings(Secret(secret) if secret else None, configs.number(LIFETIME_MAX), configs.number(EXPIRY))


def _not_found() -> KafkaError:
    return KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND, "there is no such token")


def _raise_first(outcomes: Sequence[KafkaError | None]) -> None:
    for outcome in outcomes:
        if outcome is not None:
            raise outcome
