"""The table of permissions: which operation on which resource each API needs. Guards, docs and tests use it.

The permissions of Kafka's APIs are those of Apache Kafka. The private APIs of clusters are for our own servers, which
prove their identity; `clients` may use none of them. Some rows are of APIs that are not served yet, so that they are
closed when they come.
"""

from collections.abc import Mapping
from enum import IntEnum

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.internal_apis import PEER_APIS, SC_PRIVATE_APIS, SPU_PRIVATE_APIS, InternalApiKey
from tailrace.security.acls.acl_codes import Operation as Op
from tailrace.security.acls.acl_codes import ResourceType as Res

from .authorization_row import Check, Row

_DESCRIBE_CLUSTER = Check(Op.DESCRIBE, Res.CLUSTER)
_ALTER_CLUSTER = Check(Op.ALTER, Res.CLUSTER)
_AS_BROKER = Check(Op.CLUSTER_ACTION, Res.CLUSTER)
_OF_SERVERS = "only servers of the cluster, on private ports"
_TRANSACTION = Check(Op.WRITE, Res.TRANSACTIONAL_ID, "transactional_id")
_GROUP = Check(Op.READ, Res.GROUP, "group_id")


def _row(api: IntEnum, guard: str, *checks: Check, note: str = "") -> Row:
    return Row(api, checks, guard, note)


def _whole(api: IntEnum, *checks: Check, note: str = "") -> Row:
    """A row of an API that is allowed or refused as a whole."""
    return Row(api, checks, "common_guards:whole", note)


def _each(api: IntEnum, *checks: Check, note: str = "") -> Row:
    """A row of an API whose last check is made for each item of the request."""
    return Row(api, checks, "common_guards:each", note)


def _open(api: IntEnum, note: str = "") -> Row:
    return Row(api, (), "", note or "everybody")


def _private(api: IntEnum) -> Row:
    return Row(api, (), "", _OF_SERVERS)


_ROWS = (
    # records
    _row(
        ApiKey.PRODUCE,
        "record_guards:produce",
        Check(Op.WRITE, Res.TRANSACTIONAL_ID, "transactional_id", when="transactional"),
        Check(Op.WRITE, Res.TOPIC),
    ),
    _row(
        ApiKey.FETCH,
        "record_guards:fetch",
        Check(Op.READ, Res.TOPIC),
        Check(Op.CLUSTER_ACTION, Res.CLUSTER, code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, when="of a replica"),
    ),
    _each(ApiKey.LIST_OFFSETS, Check(Op.DESCRIBE, Res.TOPIC)),
    _each(ApiKey.DELETE_RECORDS, Check(Op.DELETE, Res.TOPIC)),
    _each(ApiKey.OFFSET_FOR_LEADER_EPOCH, Check(Op.DESCRIBE, Res.TOPIC, with_cluster=Op.CLUSTER_ACTION)),
    _each(ApiKey.DESCRIBE_PRODUCERS, Check(Op.READ, Res.TOPIC)),
    # the cluster and its topics
    _open(ApiKey.API_VERSIONS),
    _open(ApiKey.SASL_HANDSHAKE),
    _open(ApiKey.SASL_AUTHENTICATE),
    _row(
        ApiKey.METADATA,
        "metadata_guards:metadata",
        Check(Op.DESCRIBE, Res.TOPIC, when="topics that are named"),
        Check(Op.DESCRIBE, Res.TOPIC, hides=True, when="all topics"),
        Check(Op.CREATE, Res.TOPIC, with_cluster=Op.CREATE, when="topics to create"),
        Check(Op.DESCRIBE, Res.CLUSTER, hides=True, when="operations on the cluster"),
    ),
    _row(
        ApiKey.DESCRIBE_CLUSTER,
        "metadata_guards:describe_cluster",
        Check(Op.DESCRIBE, Res.CLUSTER, hides=True, when="operations on the cluster"),
    ),
    _row(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        "metadata_guards:describe_topic_partitions",
        Check(Op.DESCRIBE, Res.TOPIC, when="topics that are named"),
        Check(Op.DESCRIBE, Res.TOPIC, hides=True, when="all topics"),
    ),
    _row(
        ApiKey.CREATE_TOPICS,
        "topic_guards:create_topics",
        Check(Op.CREATE, Res.TOPIC, with_cluster=Op.CREATE),
        Check(Op.DESCRIBE_CONFIGS, Res.TOPIC, hides=True, when="configs in the response"),
    ),
    _row(
        ApiKey.DELETE_TOPICS,
        "topic_guards:delete_topics",
        Check(Op.DELETE, Res.TOPIC, with_cluster=Op.DELETE),
        Check(
            Op.DESCRIBE,
            Res.TOPIC,
            with_cluster=Op.DELETE,
            hides=True,
            when="the name of a topic that the id stands for",
        ),
    ),
    _each(ApiKey.CREATE_PARTITIONS, Check(Op.ALTER, Res.TOPIC)),
    _row(
        ApiKey.DESCRIBE_CONFIGS,
        "topic_guards:describe_configs",
        Check(Op.DESCRIBE_CONFIGS, Res.TOPIC, when="topics"),
        Check(Op.DESCRIBE_CONFIGS, Res.GROUP, when="groups"),
        Check(Op.DESCRIBE_CONFIGS, Res.CLUSTER, when="all else"),
    ),
    *(
        _row(
            api,
            "topic_guards:alter_configs",
            Check(Op.ALTER_CONFIGS, Res.TOPIC, when="topics"),
            Check(Op.ALTER_CONFIGS, Res.GROUP, when="groups"),
            Check(Op.ALTER_CONFIGS, Res.CLUSTER, when="all else"),
        )
        for api in (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS)
    ),
    _whole(ApiKey.LIST_CONFIG_RESOURCES, Check(Op.DESCRIBE_CONFIGS, Res.CLUSTER)),
    _whole(ApiKey.ELECT_LEADERS, _ALTER_CLUSTER),
    _whole(ApiKey.ALTER_PARTITION_REASSIGNMENTS, _ALTER_CLUSTER),
    _whole(ApiKey.LIST_PARTITION_REASSIGNMENTS, _DESCRIBE_CLUSTER),
    _whole(ApiKey.DESCRIBE_LOG_DIRS, _DESCRIBE_CLUSTER),
    _whole(ApiKey.ALTER_REPLICA_LOG_DIRS, _ALTER_CLUSTER),
    # groups
    _row(
        ApiKey.FIND_COORDINATOR,
        "group_guards:find_coordinator",
        Check(Op.DESCRIBE, Res.GROUP, when="of a group"),
        Check(Op.DESCRIBE, Res.TRANSACTIONAL_ID, when="of transactions"),
        Check(Op.CLUSTER_ACTION, Res.CLUSTER, when="of all else"),
    ),
    *(_whole(api, _GROUP) for api in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP)),
    _each(ApiKey.OFFSET_COMMIT, _GROUP, Check(Op.READ, Res.TOPIC)),
    _row(
        ApiKey.OFFSET_FETCH,
        "group_guards:offset_fetch",
        Check(Op.DESCRIBE, Res.GROUP),
        Check(Op.DESCRIBE, Res.TOPIC, when="topics that are named"),
        Check(Op.DESCRIBE, Res.TOPIC, hides=True, when="all topics"),
    ),
    _each(ApiKey.OFFSET_DELETE, Check(Op.DELETE, Res.GROUP, "group_id"), Check(Op.READ, Res.TOPIC)),
    _row(ApiKey.DESCRIBE_GROUPS, "group_guards:describe_groups", Check(Op.DESCRIBE, Res.GROUP)),
    _row(
        ApiKey.LIST_GROUPS,
        "group_guards:list_groups",
        Check(Op.DESCRIBE, Res.GROUP, with_cluster=Op.DESCRIBE, hides=True),
    ),
    _each(ApiKey.DELETE_GROUPS, Check(Op.DELETE, Res.GROUP)),
    _row(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        "group_guards:consumer_group_heartbeat",
        _GROUP,
        Check(Op.DESCRIBE, Res.TOPIC, when="topics that are named"),
    ),
    _row(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        "group_guards:consumer_group_describe",
        Check(Op.DESCRIBE, Res.GROUP),
        Check(Op.DESCRIBE, Res.TOPIC, when="topics of its members"),
    ),
    # transactions
    _row(
        ApiKey.INIT_PRODUCER_ID,
        "transaction_guards:init_producer_id",
        Check(Op.WRITE, Res.TRANSACTIONAL_ID, "transactional_id", when="transactional"),
        Check(Op.IDEMPOTENT_WRITE, Res.CLUSTER, with_some=(Op.WRITE, Res.TOPIC), when="idempotent"),
    ),
    _row(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        "transaction_guards:add_partitions",
        Check(Op.WRITE, Res.TRANSACTIONAL_ID, "v3_and_below_transactional_id", when="up to version 3"),
        Check(Op.WRITE, Res.TOPIC, when="up to version 3"),
        Check(Op.CLUSTER_ACTION, Res.CLUSTER, when="from version 4 on"),
    ),
    _whole(ApiKey.ADD_OFFSETS_TO_TXN, _TRANSACTION, _GROUP),
    _whole(ApiKey.END_TXN, _TRANSACTION),
    _each(ApiKey.TXN_OFFSET_COMMIT, _TRANSACTION, _GROUP, Check(Op.READ, Res.TOPIC)),
    _whole(ApiKey.WRITE_TXN_MARKERS, Check(Op.CLUSTER_ACTION, Res.CLUSTER, with_cluster=Op.ALTER)),
    _row(
        ApiKey.DESCRIBE_TRANSACTIONS,
        "transaction_guards:describe_transactions",
        Check(Op.DESCRIBE, Res.TRANSACTIONAL_ID),
        Check(Op.DESCRIBE, Res.TOPIC, hides=True),
    ),
    _row(
        ApiKey.LIST_TRANSACTIONS,
        "transaction_guards:list_transactions",
        Check(Op.DESCRIBE, Res.TRANSACTIONAL_ID, hides=True),
    ),
    # security
    _whole(ApiKey.DESCRIBE_ACLS, _DESCRIBE_CLUSTER),
    _whole(ApiKey.CREATE_ACLS, _ALTER_CLUSTER),
    _whole(ApiKey.DELETE_ACLS, _ALTER_CLUSTER),
    _whole(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, _DESCRIBE_CLUSTER),
    _whole(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, _ALTER_CLUSTER),
    _whole(ApiKey.DESCRIBE_CLIENT_QUOTAS, Check(Op.DESCRIBE_CONFIGS, Res.CLUSTER)),
    _whole(ApiKey.ALTER_CLIENT_QUOTAS, Check(Op.ALTER_CONFIGS, Res.CLUSTER)),
    _row(
        ApiKey.CREATE_DELEGATION_TOKEN,
        "token_guards:create_token",
        Check(Op.CREATE_TOKENS, Res.USER, when="for another owner"),
    ),
    _open(ApiKey.RENEW_DELEGATION_TOKEN, "the owner and the renewers of the token"),
    _open(ApiKey.EXPIRE_DELEGATION_TOKEN, "the owner and the renewers of the token"),
    _row(
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
        "token_guards:describe_tokens",
        Check(Op.DESCRIBE, Res.DELEGATION_TOKEN, hides=True, when="tokens of others"),
        Check(Op.DESCRIBE_TOKENS, Res.USER, hides=True, when="tokens of others"),
    ),
    # objects of the Streaming Controller, which the command line uses
    _row(
        InternalApiKey.LIST_OBJECTS,
        "object_guards:list_objects",
        Check(Op.DESCRIBE, Res.TOPIC, with_cluster=Op.DESCRIBE, hides=True, when="topics and partitions"),
        Check(Op.DESCRIBE, Res.CLUSTER, when="all else"),
    ),
    _row(
        InternalApiKey.CREATE_OBJECT,
        "object_guards:create_object",
        Check(Op.CREATE, Res.TOPIC, with_cluster=Op.CREATE, when="topics"),
        Check(Op.ALTER, Res.CLUSTER, when="all else"),
    ),
    _whole(InternalApiKey.UPDATE_OBJECT, _ALTER_CLUSTER),
    _row(
        InternalApiKey.DELETE_OBJECT,
        "object_guards:delete_object",
        Check(Op.DELETE, Res.TOPIC, with_cluster=Op.DELETE, when="topics"),
        Check(Op.ALTER, Res.CLUSTER, when="all else"),
    ),
    _whole(InternalApiKey.UNDELETE_TOPIC, _ALTER_CLUSTER),
    _row(
        InternalApiKey.DESCRIBE_PARTITIONS,
        "object_guards:describe_partitions",
        Check(Op.DESCRIBE, Res.TOPIC, with_cluster=Op.DESCRIBE, when="topics that are named"),
        Check(Op.DESCRIBE, Res.TOPIC, with_cluster=Op.DESCRIBE, hides=True, when="all topics"),
    ),
    _whole(
        InternalApiKey.DESCRIBE_SEGMENTS,
        Check(Op.DESCRIBE, Res.TOPIC, "topic", with_cluster=Op.DESCRIBE),
    ),
    _row(
        InternalApiKey.READ_STREAM_STATE,
        "object_guards:read_stream_state",
        Check(Op.DESCRIBE, Res.TOPIC, "topic"),
        Check(Op.DESCRIBE, Res.GROUP, hides=True),
    ),
    _whole(InternalApiKey.WRITE_STREAM_STATE, Check(Op.READ, Res.TOPIC, "topic"), Check(Op.READ, Res.GROUP, "group")),
    _whole(InternalApiKey.REPORT_TRIGGER, Check(Op.READ, Res.GROUP, "name")),
    _whole(InternalApiKey.READ_TRIGGER_LOG, Check(Op.READ, Res.GROUP, "name")),
    _whole(InternalApiKey.READ_ARCHIVE_HEAD, Check(Op.DESCRIBE, Res.GROUP, "archive")),
    _whole(InternalApiKey.WRITE_ARCHIVE_HEAD, Check(Op.READ, Res.GROUP, "archive")),
    _whole(InternalApiKey.DESCRIBE_SERVER, _DESCRIBE_CLUSTER),
    # objects of SPUs
    _whole(InternalApiKey.EXPLAIN_GROUP, Check(Op.DESCRIBE, Res.GROUP, "group_id")),
    _whole(InternalApiKey.EXPLAIN_TRANSACTION, Check(Op.DESCRIBE, Res.TRANSACTIONAL_ID, "transactional_id")),
    _row(InternalApiKey.DESCRIBE_POSITIONS, "object_guards:describe_positions", Check(Op.DESCRIBE, Res.TOPIC)),
    _whole(InternalApiKey.DESCRIBE_SPU, _DESCRIBE_CLUSTER),
    _whole(InternalApiKey.READ_STORE, _AS_BROKER),
    _whole(InternalApiKey.FILL_SHELF, _AS_BROKER),
    _whole(InternalApiKey.READ_SHELF, _AS_BROKER),
    # between servers
    *(_private(InternalApiKey(key)) for key in (*SC_PRIVATE_APIS, *SPU_PRIVATE_APIS, *PEER_APIS)),
)

TABLE: Mapping[int, Row] = {row.api: row for row in _ROWS}
"""The row of each API by its key."""
assert len(TABLE) == len(_ROWS), "an API has two rows"
