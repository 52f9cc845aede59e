"""The table of the Kafka APIs that we serve, and their versions.

ApiVersions and docs/compatibility.md are made from this table. Message classes are found by name and imported on first
use, because most of them are not needed to start.
"""

import importlib
from collections.abc import Mapping
from enum import IntEnum
from functools import cache
from typing import Any, NamedTuple

from msgspec import Struct

_NEVER = 0x7FFF


class ApiKey(IntEnum):
    """The keys of all Kafka APIs, whether we serve them or not."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE = 93
    UNREGISTER_CONTROLLER = 94


class Api(Struct, frozen=True):
    """One API that we serve, and its versions."""

    key: IntEnum
    """The `ApiKey`, or the `InternalApiKey` of a message between our own programs."""
    min_version: int
    max_version: int
    flexible_from: int
    """The first version with compact strings, tagged fields and the longer headers."""
    min_version_advertised: int
    """The first version that ApiVersions lists. It is lower than `min_version` if clients expect that: librdkafka
    distrusts a broker without Produce version 0."""
    flexible_response_from: int
    """The first version whose response has the longer header."""

    @property
    def name(self) -> str:
        """Kafka's name of the API, for example `ListOffsets`."""
        return message_name(self.key)

    @property
    def request(self) -> type[Any]:
        return message_class(self.key, "Request")

    @property
    def response(self) -> type[Any]:
        return message_class(self.key, "Response")

    def serves(self, version: int) -> bool:
        return self.min_version <= version <= self.max_version

    def is_flexible(self, version: int) -> bool:
        return version >= self.flexible_from


class Feature(NamedTuple):
    """A feature level (KIP-584), which tells clients what the whole cluster can do."""

    name: str
    min_level: int
    max_level: int
    finalized_level: int


@cache
def message_class(key: IntEnum, kind: str) -> type[Any]:
    """Returns the class of an API's `Request` or `Response`. The API need not be in a table, if its messages are
    known."""
    package = "messages" if isinstance(key, ApiKey) else "internal"
    module = importlib.import_module(f"tailrace.protocol.{package}.{key.name.lower()}")
    message: type[Any] = getattr(module, message_name(key) + kind)
    return message


def message_name(key: IntEnum) -> str:
    """Returns Kafka's name of an API: `ListOffsets` for `LIST_OFFSETS`."""
    return "".join(word.capitalize() for word in key.name.split("_"))


def table_of(*apis: Api) -> Mapping[int, Api]:
    return {api.key: api for api in apis}


def _api(key: ApiKey, versions: tuple[int, int], flexible_from: int, advertised_from: int | None = None) -> Api:
    first, last = versions
    return Api(
        key=key,
        min_version=first,
        max_version=last,
        flexible_from=flexible_from,
        min_version_advertised=first if advertised_from is None else advertised_from,
        # A client learns from ApiVersions which versions we serve, so that the header of its response never changes.
        flexible_response_from=_NEVER if key is ApiKey.API_VERSIONS else flexible_from,
    )


API_TABLE = table_of(
    _api(ApiKey.PRODUCE, (3, 13), 9, advertised_from=0),
    _api(ApiKey.FETCH, (4, 18), 12),
    _api(ApiKey.LIST_OFFSETS, (1, 11), 6),
    _api(ApiKey.METADATA, (0, 13), 9),
    _api(ApiKey.OFFSET_COMMIT, (2, 10), 8),
    _api(ApiKey.OFFSET_FETCH, (1, 10), 6),
    _api(ApiKey.FIND_COORDINATOR, (0, 6), 3),
    _api(ApiKey.JOIN_GROUP, (0, 9), 6),
    _api(ApiKey.HEARTBEAT, (0, 4), 4),
    _api(ApiKey.LEAVE_GROUP, (0, 5), 4),
    _api(ApiKey.SYNC_GROUP, (0, 5), 4),
    _api(ApiKey.DESCRIBE_GROUPS, (0, 6), 5),
    _api(ApiKey.LIST_GROUPS, (0, 5), 3),
    _api(ApiKey.SASL_HANDSHAKE, (0, 1), _NEVER),
    _api(ApiKey.API_VERSIONS, (0, 4), 3),
    _api(ApiKey.CREATE_TOPICS, (2, 7), 5),
    _api(ApiKey.DELETE_TOPICS, (1, 6), 4),
    _api(ApiKey.DELETE_RECORDS, (0, 2), 2),
    _api(ApiKey.INIT_PRODUCER_ID, (0, 5), 2),
    _api(ApiKey.OFFSET_FOR_LEADER_EPOCH, (2, 4), 4),
    _api(ApiKey.ADD_PARTITIONS_TO_TXN, (0, 5), 3),
    _api(ApiKey.ADD_OFFSETS_TO_TXN, (0, 4), 3),
    _api(ApiKey.END_TXN, (0, 5), 3),
    _api(ApiKey.WRITE_TXN_MARKERS, (1, 2), 1),
    _api(ApiKey.TXN_OFFSET_COMMIT, (0, 5), 3),
    _api(ApiKey.DESCRIBE_ACLS, (1, 3), 2),
    _api(ApiKey.CREATE_ACLS, (1, 3), 2),
    _api(ApiKey.DELETE_ACLS, (1, 3), 2),
    _api(ApiKey.DESCRIBE_CONFIGS, (1, 4), 4),
    _api(ApiKey.ALTER_CONFIGS, (0, 2), 2),
    _api(ApiKey.ALTER_REPLICA_LOG_DIRS, (1, 2), 2),
    _api(ApiKey.DESCRIBE_LOG_DIRS, (1, 5), 2),
    _api(ApiKey.SASL_AUTHENTICATE, (0, 2), 2),
    _api(ApiKey.CREATE_PARTITIONS, (0, 3), 2),
    _api(ApiKey.CREATE_DELEGATION_TOKEN, (1, 3), 2),
    _api(ApiKey.RENEW_DELEGATION_TOKEN, (1, 2), 2),
    _api(ApiKey.EXPIRE_DELEGATION_TOKEN, (1, 2), 2),
    _api(ApiKey.DESCRIBE_DELEGATION_TOKEN, (1, 3), 2),
    _api(ApiKey.DELETE_GROUPS, (0, 2), 2),
    _api(ApiKey.ELECT_LEADERS, (0, 2), 2),
    _api(ApiKey.INCREMENTAL_ALTER_CONFIGS, (0, 1), 1),
    _api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, (0, 1), 0),
    _api(ApiKey.LIST_PARTITION_REASSIGNMENTS, (0, 0), 0),
    _api(ApiKey.OFFSET_DELETE, (0, 0), _NEVER),
    _api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, (0, 0), 0),
    _api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, (0, 0), 0),
    _api(ApiKey.DESCRIBE_CLIENT_QUOTAS, (0, 1), 1),
    _api(ApiKey.ALTER_CLIENT_QUOTAS, (0, 1), 1),
    _api(ApiKey.DESCRIBE_CLUSTER, (0, 2), 0),
    _api(ApiKey.DESCRIBE_PRODUCERS, (0, 0), 0),
    _api(ApiKey.DESCRIBE_TRANSACTIONS, (0, 0), 0),
    _api(ApiKey.LIST_TRANSACTIONS, (0, 2), 0),
    _api(ApiKey.CONSUMER_GROUP_HEARTBEAT, (0, 1), 0),
    _api(ApiKey.CONSUMER_GROUP_DESCRIBE, (0, 1), 0),
    _api(ApiKey.LIST_CONFIG_RESOURCES, (0, 1), 0),
    _api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, (0, 0), 0),
)

FEATURES: tuple[Feature, ...] = (Feature("group.version", 0, 1, 1), Feature("transaction.version", 0, 2, 2))
"""The feature levels that we advertise. Clients take an absent feature for level 0, so that a level is listed only when
we have what it promises: level 1 of `group.version` promises the groups of KIP-848, and level 2 of
`transaction.version` the transactions of KIP-890."""
