"""The APIs that our own programs ask of each other, by who asks whom; never in ApiVersions.

They use Kafka's encoding and headers, with keys that Kafka is far from, so that a message which strays to the wrong
port is recognised and refused.
"""

from enum import IntEnum

from .apis import Api, table_of

INTERNAL_KEY_MIN = 10_000


class InternalApiKey(IntEnum):
    REGISTER_SPU = 10000
    RENEW_LEASE = 10001
    LEAVE = 10002
    REPORT_LIVE_REPLICAS = 10003
    ALLOCATE_PRODUCER_IDS = 10004
    FORWARD = 10005

    APPLY_SPECS = 10050
    APPLY_METADATA = 10051
    DESCRIBE_REPLICAS = 10052

    LIST_OBJECTS = 11000
    CREATE_OBJECT = 11001
    UPDATE_OBJECT = 11002
    DELETE_OBJECT = 11003
    UNDELETE_TOPIC = 11004
    DESCRIBE_PARTITIONS = 11005


def _api(key: InternalApiKey) -> Api:
    return Api(key, 0, 0, flexible_from=0, min_version_advertised=0, flexible_response_from=0)


SC_PRIVATE_APIS = table_of(
    _api(InternalApiKey.REGISTER_SPU),
    _api(InternalApiKey.RENEW_LEASE),
    _api(InternalApiKey.LEAVE),
    _api(InternalApiKey.REPORT_LIVE_REPLICAS),
    _api(InternalApiKey.ALLOCATE_PRODUCER_IDS),
    _api(InternalApiKey.FORWARD),
)
"""What an SPU asks of the SC, on the SC's private port."""

SPU_PRIVATE_APIS = table_of(
    _api(InternalApiKey.APPLY_SPECS),
    _api(InternalApiKey.APPLY_METADATA),
    _api(InternalApiKey.DESCRIBE_REPLICAS),
)
"""What the SC asks of an SPU, on the same connection."""

SC_OBJECT_APIS = table_of(
    _api(InternalApiKey.LIST_OBJECTS),
    _api(InternalApiKey.CREATE_OBJECT),
    _api(InternalApiKey.UPDATE_OBJECT),
    _api(InternalApiKey.DELETE_OBJECT),
    _api(InternalApiKey.UNDELETE_TOPIC),
    _api(InternalApiKey.DESCRIBE_PARTITIONS),
)
"""What the command line asks of the SC, on the SC's public port, beside Kafka's APIs."""
