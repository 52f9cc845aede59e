"""WriteTxnMarkers, versions 1–2: ends transactions in partitions that this SPU leads.

- Coordinators send it to the leaders of the partitions in a transaction. `kafka-transactions.sh abort` sends it to end
  a transaction that hangs.
- A marker that is in the log already is not written again, but is acknowledged.
- As in Kafka, a marker is acknowledged when it is committed, and results are merged by producer id. Unlike Kafka, a
  partition responds with REQUEST_TIMED_OUT after five seconds, and does not hold up the results of the others longer.
- The errors NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, KAFKA_STORAGE_ERROR and REQUEST_TIMED_OUT ask for a retry.
  TRANSACTION_COORDINATOR_FENCED and INVALID_PRODUCER_EPOCH say that a newer coordinator or a newer producer was here.
"""

from tailrace.broker.transactions.markers.marker_writing import write_markers
from tailrace.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from tailrace.server.request_context import RequestContext

from .transaction_host import MarkerWritingHost


def handle(host: MarkerWritingHost, context: RequestContext, request: WriteTxnMarkersRequest) -> None:
    write_markers(host, request.markers, context.prepare)
