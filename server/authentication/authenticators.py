"""What one listener needs to authenticate clients: its mechanisms, and the users and tokens of the cluster."""

import functools
from collections.abc import Callable

from tailrace.runtime.chance import Chance
from tailrace.runtime.wall_clock import WallClock
from tailrace.runtime.workers.hard_work import HardWorker
from tailrace.security.identity.principal import parse_principal
from tailrace.security.records.security_tables import SecurityTables
from tailrace.security.sasl.bearer_exchange import MECHANISM as OAUTHBEARER
from tailrace.security.sasl.bearer_exchange import BearerExchange, names_known_key
from tailrace.security.sasl.bearer_tokens import BearerTokens
from tailrace.security.sasl.plain_exchange import MECHANISM as PLAIN
from tailrace.security.sasl.plain_exchange import KnownPasswords, PlainExchange
from tailrace.security.sasl.sasl_session import SaslSession
from tailrace.security.sasl.sasl_steps import SaslExchange, user
from tailrace.security.sasl.scram_exchange import ScramExchange, ScramLogin
from tailrace.security.sasl.scram_keys import SCRAM_MECHANISMS
from tailrace.security.sasl.unknown_users import UnknownUsers
from tailrace.security.settings.sasl_settings import SaslSettings

from .bearer_key_source import BearerKeySource
from .login_log import LoginLog

NONCE_BYTES = 24


class Authenticators:
    """The mechanisms of one listener."""

    def __init__(
        self,
        settings: SaslSettings,
        tables: SecurityTables,
        chance: Chance,
        wall_clock: WallClock,
        worker: HardWorker,
        log: LoginLog,
        keys: BearerKeySource | None,
    ) -> None:
        """Prepares the mechanisms. `keys` are those that sign bearer tokens, if the settings enable them."""
        self.settings = settings
        self.worker = worker
        self.log = log
        self.keys = keys
        self._tables = tables
        self._chance = chance
        self._wall_clock = wall_clock
        secret = chance.secret(32)
        self._unknown = UnknownUsers(lambda: tables.login_secret or secret)
        self._known = KnownPasswords(secret)
        self._makers: dict[str, Callable[[], SaslExchange]] = {
            mechanism: self._maker(mechanism) for mechanism in settings.mechanisms
        }

    def new_session(self) -> SaslSession:
        """Returns the session of a new connection."""
        return SaslSession(self._makers, self.settings.lifetime_ms_max, self._wall_clock.now_ms)

    def lacks_key(self, message: bytes) -> bool:
        """Whether a client's message has a bearer token whose key is not in the key set."""
        return self.keys is not None and not names_known_key(message, self.keys.current)

    def _maker(self, mechanism: str) -> Callable[[], SaslExchange]:
        if mechanism == PLAIN:
            return lambda: PlainExchange(self._find_for_plain, self._known)
        if mechanism == OAUTHBEARER:
            assert self.settings.bearer is not None and self.keys is not None, "the settings require keys"
            keys = self.keys
            tokens = BearerTokens(self.settings.bearer, lambda: keys.current, self._wall_clock.now_ms)
            return lambda: BearerExchange(tokens.verify)
        find = functools.partial(self.find, mechanism)
        return lambda: ScramExchange(mechanism, find, self._chance.secret(NONCE_BYTES).hex())

    def find(self, mechanism: str, name: str, is_token: bool) -> ScramLogin:
        """Finds a user, or a delegation token that has not expired."""
        if is_token:
            token = self._tables.tokens.get(name)
            credential = None if token is None else token.credential(mechanism)
            if token is not None and credential is not None and token.expires_ms > self._wall_clock.now_ms():
                return ScramLogin(credential, parse_principal(token.owner), token.expires_ms)
        else:
            found = self._tables.users.get(name)
            credential = None if found is None else found.credential(mechanism)
            if credential is not None:
                return ScramLogin(credential, user(name))
        return ScramLogin(self._unknown.credential(mechanism, name), None)

    def _find_for_plain(self, name: str) -> ScramLogin:
        """Finds a user by any of its credentials."""
        found = self._tables.users.get(name)
        if found is not None and found.credentials:
            return ScramLogin(found.credentials[0], user(name))
        return ScramLogin(self._unknown.credential(SCRAM_MECHANISMS[0], name), None)
