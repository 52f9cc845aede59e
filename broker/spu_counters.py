"""The counters of an SPU, as plain numbers, beside what its server counts of clients."""

from collections.abc import Mapping

from tailrace.broker.groups.common.group_counts import GroupCounts
from tailrace.broker.replicas.append_samples import DeliveryLatencies
from tailrace.broker.transactions.common.transaction_counts import TransactionCounts
from tailrace.protocol.apis import API_TABLE, Api
from tailrace.protocol.internal_apis import SPU_OBJECT_APIS
from tailrace.server.server_metrics import ServerMetrics
from tailrace.storage.indexes.lookup_reads import LookupReads

KNOWN: Mapping[int, Api] = {**API_TABLE, **SPU_OBJECT_APIS}
"""What an SPU answers on its public port: Kafka's clients know the first of them alone, and are told of no others."""


class BrokerMetrics:
    def __init__(self) -> None:
        self.server = ServerMetrics(KNOWN)
        self.groups = GroupCounts()
        self.transactions = TransactionCounts()
        self.produced_bytes = 0
        self.produced_batches = 0
        self.fetched_bytes = 0
        self.produce_errors = 0
        self.flushes = 0
        self.flush_seconds = 0.0
        self.recovered_replicas = 0
        self.rebuilt_indexes = 0
        self.truncated_bytes = 0
        self.live_replica_shrinks = 0
        self.live_replica_expands = 0
        self.live_replica_updates = 0
        self.scrubbed_bytes = 0
        self.damaged_batches = 0
        self.mended_batches = 0
        self.copied_bytes = 0
        self.read_through_bytes = 0
        self.caught_up_bytes = 0
        self.shelf_filled_bytes = 0
        self.shelf_read_bytes = 0
        self.lookups = LookupReads()
        self.deliveries = DeliveryLatencies()
