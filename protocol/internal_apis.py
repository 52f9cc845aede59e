"""The tables of the APIs between our own programs: one for each direction. ApiVersions never lists them.

They have Kafka's encoding and headers. Their keys are far from Kafka's, so that a message on the wrong port is
recognised and refused. The messages between SPUs are no requests: an SPU replies with another message, or not at all.
"""

import importlib
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from msgspec import Struct

from .apis import Api, message_name, table_of

INTERNAL_KEY_MIN = 10_000


class InternalApiKey(IntEnum):
    """The keys of the APIs and messages between our own programs."""

    REGISTER_SPU = 10000
    RENEW_LEASE = 10001
    LEAVE = 10002
    REPORT_LIVE_REPLICAS = 10003
    ALLOCATE_PRODUCER_IDS = 10004
    FORWARD = 10005
    REPORT_SHELVES = 10006

    APPLY_SPECS = 10050
    APPLY_METADATA = 10051
    DESCRIBE_REPLICAS = 10052
    DESCRIBE_REPLICA_SEGMENTS = 10053
    APPEND_AUDIT = 10054

    INTRODUCE = 10100
    REFUSE = 10101
    HELLO = 10102
    SEAL = 10103
    SEAL_REPLY = 10104
    APPEND = 10105
    APPEND_REPLY = 10106
    FENCED = 10107
    FETCH_ENTRIES = 10108
    FETCHED_ENTRIES = 10109
    PING = 10110

    LIST_OBJECTS = 11000
    CREATE_OBJECT = 11001
    UPDATE_OBJECT = 11002
    DELETE_OBJECT = 11003
    UNDELETE_TOPIC = 11004
    DESCRIBE_PARTITIONS = 11005
    DESCRIBE_SEGMENTS = 11006
    READ_STREAM_STATE = 11007
    WRITE_STREAM_STATE = 11008
    REPORT_TRIGGER = 11009
    READ_TRIGGER_LOG = 11010
    READ_ARCHIVE_HEAD = 11011
    WRITE_ARCHIVE_HEAD = 11012

    EXPLAIN_GROUP = 12000
    DESCRIBE_POSITIONS = 12001
    DESCRIBE_SPU = 12002
    READ_STORE = 12003
    FILL_SHELF = 12004
    READ_SHELF = 12005
    EXPLAIN_TRANSACTION = 12006

    DESCRIBE_SERVER = 13000


class PeerApi(Struct, frozen=True):
    """A message between SPUs, which needs no response."""

    key: InternalApiKey
    min_version: int
    max_version: int

    @property
    def name(self) -> str:
        return message_name(self.key)

    @property
    def message(self) -> type[Any]:
        module = importlib.import_module(f"tailrace.protocol.internal.{self.key.name.lower()}_message")
        message: type[Any] = getattr(module, f"{self.name}Message")
        return message


def _api(key: InternalApiKey) -> Api:
    return Api(key, 0, 0, flexible_from=0, min_version_advertised=0, flexible_response_from=0)


SC_PRIVATE_APIS = table_of(
    _api(InternalApiKey.REGISTER_SPU),
    _api(InternalApiKey.RENEW_LEASE),
    _api(InternalApiKey.LEAVE),
    _api(InternalApiKey.REPORT_LIVE_REPLICAS),
    _api(InternalApiKey.ALLOCATE_PRODUCER_IDS),
    _api(InternalApiKey.FORWARD),
    _api(InternalApiKey.REPORT_SHELVES),
)
"""The requests of an SPU to the SC, on the SC's private port."""

SPU_PRIVATE_APIS = table_of(
    _api(InternalApiKey.APPLY_SPECS),
    _api(InternalApiKey.APPLY_METADATA),
    _api(InternalApiKey.DESCRIBE_REPLICAS),
    _api(InternalApiKey.DESCRIBE_REPLICA_SEGMENTS),
    _api(InternalApiKey.APPEND_AUDIT),
)
"""The requests of the SC to an SPU, on the connection that the SPU has opened to the SC's private port."""

SC_OBJECT_APIS = table_of(
    _api(InternalApiKey.LIST_OBJECTS),
    _api(InternalApiKey.CREATE_OBJECT),
    _api(InternalApiKey.UPDATE_OBJECT),
    _api(InternalApiKey.DELETE_OBJECT),
    _api(InternalApiKey.UNDELETE_TOPIC),
    _api(InternalApiKey.DESCRIBE_PARTITIONS),
    _api(InternalApiKey.DESCRIBE_SEGMENTS),
    _api(InternalApiKey.READ_STREAM_STATE),
    _api(InternalApiKey.WRITE_STREAM_STATE),
    _api(InternalApiKey.REPORT_TRIGGER),
    _api(InternalApiKey.READ_TRIGGER_LOG),
    _api(InternalApiKey.READ_ARCHIVE_HEAD),
    _api(InternalApiKey.WRITE_ARCHIVE_HEAD),
    _api(InternalApiKey.DESCRIBE_SERVER),
)
"""The requests of the command line and of triggers to the SC, on the SC's public port, besides Kafka's APIs."""

SPU_OBJECT_APIS = table_of(
    _api(InternalApiKey.EXPLAIN_GROUP),
    _api(InternalApiKey.EXPLAIN_TRANSACTION),
    _api(InternalApiKey.DESCRIBE_POSITIONS),
    _api(InternalApiKey.DESCRIBE_SPU),
    _api(InternalApiKey.READ_STORE),
    _api(InternalApiKey.FILL_SHELF),
    _api(InternalApiKey.READ_SHELF),
    _api(InternalApiKey.DESCRIBE_SERVER),
)
"""The requests of the command line and of other SPUs to an SPU, on the SPU's public port, besides Kafka's APIs."""

PEER_APIS: Mapping[int, PeerApi] = {
    key: PeerApi(key, 0, 0)
    for key in (
        InternalApiKey.INTRODUCE,
        InternalApiKey.REFUSE,
        InternalApiKey.HELLO,
        InternalApiKey.SEAL,
        InternalApiKey.SEAL_REPLY,
        InternalApiKey.APPEND,
        InternalApiKey.APPEND_REPLY,
        InternalApiKey.FENCED,
        InternalApiKey.FETCH_ENTRIES,
        InternalApiKey.FETCHED_ENTRIES,
        InternalApiKey.PING,
    )
}
"""The messages between SPUs, on the leader's private port."""
