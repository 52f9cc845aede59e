"""Handlers of the APIs that only an SPU answers, and the table that finds them; `server/handlers/` has the shared ones.

A handler is the function `handle` of its module. It returns the response, or None if it responds later through its
context; rare or long work runs in a coroutine. A handler module is imported when its first request arrives, so that an
SPU which only produces and fetches never loads the others. CONTRIBUTING.md says how to add an API.
"""

import importlib
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.internal_apis import InternalApiKey
from tailrace.server.handlers import ADMINISTRATIVE
from tailrace.server.request_context import Reply, RequestContext

from .administration.forwarding_host import ForwardingHost
from .groups.group_host import ConsumerGroupHost, TransactionalGroupHost
from .records.record_host import (
    DeleteRecordsHost,
    FetchHost,
    ListOffsetsHost,
    ProducerIdHost,
    TransactionalProduceHost,
)
from .stores.store_host import MachineHost, PeersHost, ShelfHost
from .transactions.transaction_host import AddOffsetsHost, AddPartitionsHost, ListTransactionsHost, MarkerWritingHost

MODULES: Mapping[int, str] = {
    ApiKey.PRODUCE: "records.produce",
    ApiKey.FETCH: "records.fetch",
    ApiKey.LIST_OFFSETS: "records.list_offsets",
    ApiKey.DELETE_RECORDS: "records.delete_records",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "records.offset_for_leader_epoch",
    ApiKey.INIT_PRODUCER_ID: "transactions.init_producer_id",
    #
    ApiKey.JOIN_GROUP: "groups.join_group",
    ApiKey.SYNC_GROUP: "groups.sync_group",
    ApiKey.HEARTBEAT: "groups.heartbeat",
    ApiKey.LEAVE_GROUP: "groups.leave_group",
    ApiKey.OFFSET_COMMIT: "groups.offset_commit",
    ApiKey.OFFSET_FETCH: "groups.offset_fetch",
    ApiKey.OFFSET_DELETE: "groups.offset_delete",
    ApiKey.TXN_OFFSET_COMMIT: "groups.txn_offset_commit",
    ApiKey.DESCRIBE_GROUPS: "groups.describe_groups",
    ApiKey.LIST_GROUPS: "groups.list_groups",
    ApiKey.DELETE_GROUPS: "groups.delete_groups",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "groups.consumer_group_heartbeat",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "groups.consumer_group_describe",
    InternalApiKey.EXPLAIN_GROUP: "groups.explain_group",
    #
    ApiKey.ADD_PARTITIONS_TO_TXN: "transactions.add_partitions_to_txn",
    ApiKey.ADD_OFFSETS_TO_TXN: "transactions.add_offsets_to_txn",
    ApiKey.END_TXN: "transactions.end_txn",
    ApiKey.DESCRIBE_TRANSACTIONS: "transactions.describe_transactions",
    ApiKey.LIST_TRANSACTIONS: "transactions.list_transactions",
    #
    ApiKey.DESCRIBE_LOG_DIRS: "stores.describe_log_dirs",
    ApiKey.ALTER_REPLICA_LOG_DIRS: "stores.alter_replica_log_dirs",
    InternalApiKey.DESCRIBE_SERVER: "stores.describe_server",
    InternalApiKey.DESCRIBE_SPU: "stores.describe_spu",
    InternalApiKey.DESCRIBE_POSITIONS: "stores.describe_positions",
    InternalApiKey.FILL_SHELF: "stores.fill_shelf",
    InternalApiKey.READ_SHELF: "stores.read_shelf",
    InternalApiKey.READ_STORE: "stores.read_store",
    #
    ApiKey.WRITE_TXN_MARKERS: "transactions.write_txn_markers",
    ApiKey.DESCRIBE_PRODUCERS: "transactions.describe_producers",
    InternalApiKey.EXPLAIN_TRANSACTION: "transactions.explain_transaction",
    #
    **dict.fromkeys(ADMINISTRATIVE, "administration.forwarded_apis"),
}
"""The module, in this package, that handles each API."""


class SpuHost(
    AddPartitionsHost,
    AddOffsetsHost,
    ListTransactionsHost,
    ProducerIdHost,
    TransactionalProduceHost,
    FetchHost,
    ListOffsetsHost,
    DeleteRecordsHost,
    ConsumerGroupHost,
    TransactionalGroupHost,
    MachineHost,
    PeersHost,
    ShelfHost,
    ForwardingHost,
    MarkerWritingHost,
    Protocol,
):
    """Everything that the handlers need of an SPU; each handler names only the interface that it uses."""


Handler = Callable[[SpuHost, RequestContext, Any], Reply]


def load(api_key: int) -> Handler:
    """Imports the module that handles the API, and returns its handler."""
    module = importlib.import_module(f"{__name__}.{MODULES[api_key]}")
    handler: Handler = module.handle
    return handler
