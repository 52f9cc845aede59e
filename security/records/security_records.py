"""The kinds of stored records, their keys, and their form as bytes.

A key is unique within its kind. The keys of users and tokens are their names. Access rules and entities of quotas have
many fields, so their keys are hashes.
"""

from collections.abc import Callable, Mapping
from hashlib import sha256

import msgspec

from .acl_record import AclRecord
from .quota_record import QuotaEntity, QuotaRecord
from .token_record import TokenRecord
from .user_record import UserRecord

SecurityRecord = UserRecord | AclRecord | QuotaRecord | TokenRecord

USER = "user"
ACL = "acl"
QUOTA = "quota"
TOKEN = "token"
KINDS: Mapping[str, type[UserRecord] | type[AclRecord] | type[QuotaRecord] | type[TokenRecord]] = {
    USER: UserRecord,
    ACL: AclRecord,
    QUOTA: QuotaRecord,
    TOKEN: TokenRecord,
}
RECORDS_MAX: Mapping[str, int] = {USER: 100_000, ACL: 100_000, QUOTA: 100_000, TOKEN: 100_000}
"""How many records of each kind a cluster can have. All of them are in the memory of every server."""
NAME_BYTES_MAX = 1024
"""The longest name of a user, in UTF-8."""
RECORD_BYTES_MAX = 64 * 1024
"""The largest record."""


class RecordError(Exception):
    """A record cannot be stored, or bytes are not a record. The message is one sentence without secrets."""


def kind_of(record: SecurityRecord) -> str:
    """Returns the kind of a record."""
    match record:
        case UserRecord():
            return USER
        case AclRecord():
            return ACL
        case QuotaRecord():
            return QUOTA
        case TokenRecord():
            return TOKEN


def key_of(record: SecurityRecord) -> str:
    """Returns the key of a record within its kind."""
    match record:
        case UserRecord(name):
            return name
        case TokenRecord(token_id):
            return token_id
        case AclRecord():
            return _hash(msgspec.structs.astuple(record))
        case QuotaRecord(entity):
            return quota_key(entity)


def quota_key(entity: QuotaEntity) -> str:
    """Returns the key of the quotas of an entity."""
    return _hash(entity)


def check_record(record: SecurityRecord) -> None:
    """Raises RecordError if the record is too large to be stored, or has an empty or overlong name."""
    if isinstance(record, UserRecord | TokenRecord):
        size = len(key_of(record).encode(errors="surrogatepass"))
        if not 0 < size <= NAME_BYTES_MAX:
            raise RecordError(f"the name of a {kind_of(record)} has 1 to {NAME_BYTES_MAX} bytes, not {size}")
    if len(encode_record(record)) > RECORD_BYTES_MAX:
        raise RecordError(f"the {kind_of(record)} takes more than {RECORD_BYTES_MAX} bytes; use shorter names")


def encode_record(record: SecurityRecord) -> bytes:
    """Encodes a record as JSON."""
    return msgspec.json.encode(record)


def decode_record(kind: str, value: bytes) -> SecurityRecord:
    """Decodes a record of a kind. Raises RecordError."""
    return _parsed(kind, lambda found: msgspec.json.decode(value, type=found))


def document_of_record(record: SecurityRecord) -> dict[str, object]:
    """Returns the record as a document of texts, numbers, lists and dictionaries."""
    document = msgspec.to_builtins(record)
    assert isinstance(document, dict)
    return document


def read_record(kind: str, document: object) -> SecurityRecord:
    """Reads a document that `document_of_record` has made. Raises RecordError."""
    return _parsed(kind, lambda found: msgspec.convert(document, type=found))


def _parsed(kind: str, parse: Callable[[type[SecurityRecord]], SecurityRecord]) -> SecurityRecord:
    found = KINDS.get(kind)
    if found is None:
        raise RecordError(f"{kind!r:.40} is not a kind of security record")
    try:
        return parse(found)
    except (msgspec.MsgspecError, ValueError) as error:
        # The error names the wrong field and type, but no value.
        raise RecordError(f"the {kind} is not one that this version can read: {error}") from None


def _hash(fields: object) -> str:
    return sha256(msgspec.json.encode(fields)).hexdigest()
