"""The users, access rules, quotas and delegation tokens that a server decides with.

The source of metadata changes the tables, and only it. Whatever a server computes from them is valid until `version`
rises. What belongs to long-lived connections can be told by `on_changed`.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from .acl_record import AclRecord
from .quota_record import QuotaRecord
from .security_records import ACL, KINDS, QUOTA, TOKEN, USER, SecurityRecord, key_of, kind_of
from .token_record import TokenRecord
from .user_record import UserRecord


class SecurityTables:
    def __init__(self) -> None:
        self._users: dict[str, UserRecord] = {}
        self._acls: dict[str, AclRecord] = {}
        self._quotas: dict[str, QuotaRecord] = {}
        self._tokens: dict[str, TokenRecord] = {}
        self.users: Mapping[str, UserRecord] = MappingProxyType(self._users)
        """The users by name."""
        self.acls: Mapping[str, AclRecord] = MappingProxyType(self._acls)
        """The access rules by key."""
        self.quotas: Mapping[str, QuotaRecord] = MappingProxyType(self._quotas)
        """The quotas by the key of their entity; see `quota_key`."""
        self.tokens: Mapping[str, TokenRecord] = MappingProxyType(self._tokens)
        """The delegation tokens by id, including expired ones that are not deleted yet."""
        self._by_kind: Mapping[str, Mapping[str, SecurityRecord]] = {
            USER: self.users,
            ACL: self.acls,
            QUOTA: self.quotas,
            TOKEN: self.tokens,
        }
        self.login_secret = b""
        """The secret of the cluster for logins of users that do not exist; empty until it is known."""
        self.version = 0
        """A number that rises with each change, so that results computed from the tables can be cached."""
        self.versions = dict.fromkeys(KINDS, 0)
        """A number for each kind, which rises with each change of a record of the kind."""
        self.on_changed: list[Callable[[str], None]] = []
        """Functions to call with the kind after each change of a record."""

    # state

    def of_kind(self, kind: str) -> Mapping[str, SecurityRecord]:
        """Returns the records of a kind by key."""
        return self._by_kind[kind]

    # called by the source of metadata

    def put(self, record: SecurityRecord) -> None:
        """Adds or replaces a record."""
        key = key_of(record)
        match record:
            case UserRecord():
                self._users[key] = record
            case AclRecord():
                self._acls[key] = record
            case QuotaRecord():
                self._quotas[key] = record
            case TokenRecord():
                self._tokens[key] = record
        self._note(kind_of(record))

    def remove(self, kind: str, key: str) -> None:
        """Removes a record, if it exists."""
        record = self._by_kind[kind].get(key)
        match record:
            case None:
                return
            case UserRecord():
                del self._users[key]
            case AclRecord():
                del self._acls[key]
            case QuotaRecord():
                del self._quotas[key]
            case TokenRecord():
                del self._tokens[key]
        self._note(kind)

    def _note(self, kind: str) -> None:
        self.version += 1
        self.versions[kind] += 1
        for each in self.on_changed:
            each(kind)
