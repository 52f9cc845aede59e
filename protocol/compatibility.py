"""Writes docs/compatibility.md from the API table.

Run `python -m tailrace.protocol.compatibility > docs/compatibility.md` when the table changes. A test compares the page
with the table, because a page of versions that is kept by hand is soon wrong.
"""

from .apis import API_TABLE, FEATURES, Api, ApiKey, Feature, message_name

_KAFKA_RELEASE = "4.3.1"

_KAFKA_VERSIONS = {
    ApiKey.PRODUCE: (0, 13),
    ApiKey.FETCH: (4, 18),
    ApiKey.LIST_OFFSETS: (1, 11),
    ApiKey.METADATA: (0, 13),
    ApiKey.OFFSET_COMMIT: (2, 10),
    ApiKey.OFFSET_FETCH: (1, 10),
    ApiKey.FIND_COORDINATOR: (0, 6),
    ApiKey.JOIN_GROUP: (0, 9),
    ApiKey.HEARTBEAT: (0, 4),
    ApiKey.LEAVE_GROUP: (0, 5),
    ApiKey.SYNC_GROUP: (0, 5),
    ApiKey.DESCRIBE_GROUPS: (0, 6),
    ApiKey.LIST_GROUPS: (0, 5),
    ApiKey.SASL_HANDSHAKE: (0, 1),
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.CREATE_TOPICS: (2, 7),
    ApiKey.DELETE_TOPICS: (1, 6),
    ApiKey.DELETE_RECORDS: (0, 2),
    ApiKey.INIT_PRODUCER_ID: (0, 5),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 5),
    ApiKey.ADD_OFFSETS_TO_TXN: (0, 4),
    ApiKey.END_TXN: (0, 5),
    ApiKey.WRITE_TXN_MARKERS: (1, 2),
    ApiKey.TXN_OFFSET_COMMIT: (0, 5),
    ApiKey.DESCRIBE_ACLS: (1, 3),
    ApiKey.CREATE_ACLS: (1, 3),
    ApiKey.DELETE_ACLS: (1, 3),
    ApiKey.DESCRIBE_CONFIGS: (1, 4),
    ApiKey.ALTER_CONFIGS: (0, 2),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (1, 2),
    ApiKey.DESCRIBE_LOG_DIRS: (1, 5),
    ApiKey.SASL_AUTHENTICATE: (0, 2),
    ApiKey.CREATE_PARTITIONS: (0, 3),
    ApiKey.CREATE_DELEGATION_TOKEN: (1, 3),
    ApiKey.RENEW_DELEGATION_TOKEN: (1, 2),
    ApiKey.EXPIRE_DELEGATION_TOKEN: (1, 2),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: (1, 3),
    ApiKey.DELETE_GROUPS: (0, 2),
    ApiKey.ELECT_LEADERS: (0, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 1),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (0, 0),
    ApiKey.OFFSET_DELETE: (0, 0),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (0, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: (0, 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (0, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (0, 0),
    ApiKey.DESCRIBE_QUORUM: (0, 2),
    ApiKey.UPDATE_FEATURES: (0, 2),
    ApiKey.DESCRIBE_CLUSTER: (0, 2),
    ApiKey.DESCRIBE_PRODUCERS: (0, 0),
    ApiKey.UNREGISTER_BROKER: (0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: (0, 0),
    ApiKey.LIST_TRANSACTIONS: (0, 2),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 1),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1),
    ApiKey.LIST_CONFIG_RESOURCES: (0, 1),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (0, 0),
    ApiKey.SHARE_GROUP_HEARTBEAT: (1, 1),
    ApiKey.SHARE_GROUP_DESCRIBE: (1, 1),
    ApiKey.SHARE_FETCH: (1, 2),
    ApiKey.SHARE_ACKNOWLEDGE: (1, 2),
    ApiKey.ADD_RAFT_VOTER: (0, 1),
    ApiKey.REMOVE_RAFT_VOTER: (0, 0),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: (0, 0),
    ApiKey.READ_SHARE_GROUP_STATE: (0, 0),
    ApiKey.WRITE_SHARE_GROUP_STATE: (0, 1),
    ApiKey.DELETE_SHARE_GROUP_STATE: (0, 0),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: (0, 1),
    ApiKey.STREAMS_GROUP_HEARTBEAT: (0, 0),
    ApiKey.STREAMS_GROUP_DESCRIBE: (0, 0),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (0, 1),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: (0, 0),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: (0, 0),
}
"""The versions that a broker of that release advertises to clients, without the APIs of controllers and between
brokers."""

_PAGE = """\
# Compatibility

Written by `python -m tailrace.protocol.compatibility` from the API table in `protocol/apis.py`: change the table, not
this page.

Tailrace serves {served} of the {all} APIs that a broker of Apache Kafka {release} offers its clients, each in the
versions below. A client asks for them with ApiVersions and takes the newest version that both sides know.

| API | key | Tailrace | Apache Kafka {release} |
|---|--:|---|---|
{rows}

A request of ApiVersions in a version that is not in the table gets UNSUPPORTED_VERSION in the oldest form, so that the
client can ask again. Any other API or version that is not in the table closes the connection, as in Apache Kafka.

## Feature levels

{features}
"""


def page() -> str:
    rows = [_row(key, API_TABLE.get(key)) for key in sorted(_KAFKA_VERSIONS.keys() | API_TABLE.keys())]
    return _PAGE.format(
        served=len(_KAFKA_VERSIONS.keys() & API_TABLE.keys()),
        all=len(_KAFKA_VERSIONS),
        release=_KAFKA_RELEASE,
        rows="\n".join(rows),
        features="\n".join(_feature(feature) for feature in FEATURES) or "None are advertised.",
    )


def _row(key: int, api: Api | None) -> str:
    ours = "–"
    if api is not None:
        ours = _range(api.min_version, api.max_version)
        if api.min_version_advertised != api.min_version:
            ours += f" (advertised from {api.min_version_advertised})"
    kafka = _KAFKA_VERSIONS.get(ApiKey(key))
    return f"| {message_name(ApiKey(key))} | {key} | {ours} | {_range(*kafka) if kafka else '–'} |"


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}–{last}"


def _feature(feature: Feature) -> str:
    return f"- {feature.name}: {_range(feature.min_level, feature.max_level)}, finalized {feature.finalized_level}"


if __name__ == "__main__":
    print(page(), end="")
