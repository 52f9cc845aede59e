"""AddPartitionsToTxn, versions 0–5: partitions become part of transactions, or are verified to be part of them.

- Clients send v0 to v3, with one transaction. SPUs send v4 and v5 to each other, for producers that write to a
  partition: v4 can verify only, and has several transactions.
- If one partition does not exist, no partition of its transaction is added: the others get OPERATION_NOT_ATTEMPTED.
  The same holds for internal topics, which get TOPIC_AUTHORIZATION_FAILED. No marker could be written to some of them,
  and the transaction would never end.
- A request of a client waits until the markers of the transaction before are written, for up to five seconds. Kafka
  refuses it with CONCURRENT_TRANSACTIONS.
- Before v2, a fenced producer gets INVALID_PRODUCER_EPOCH.
"""

from collections.abc import Iterable, Mapping

from tailrace.broker.handlers.coordinator_answers import Gathering
from tailrace.broker.transactions.hosting.partition_adding import FROM_SPUS, Added, Adding
from tailrace.cluster.coordinators import GROUPS_TOPIC
from tailrace.cluster.specs import TopicPartition
from tailrace.cluster.topic_names import INTERNAL_TOPICS
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from tailrace.server.request_context import RequestContext

from .transaction_host import AddPartitionsHost
from .transaction_responses import client_of


def handle(host: AddPartitionsHost, context: RequestContext, request: AddPartitionsToTxnRequest) -> None:
    is_from_spu = context.api_version >= FROM_SPUS

    def response(results: list[AddPartitionsToTxnResult]) -> AddPartitionsToTxnResponse:
        if is_from_spu:
            return AddPartitionsToTxnResponse(results_by_transaction=results)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)

    gathering = Gathering(context, response)
    for adding in _addings(request, is_from_spu=is_from_spu):
        part = _Part(adding, gathering)
        # As in Kafka, a client adds the offsets of its group with AddOffsetsToTxn, and SPUs add them for newer clients.
        written_by_spus = INTERNAL_TOPICS - {GROUPS_TOPIC} if is_from_spu else INTERNAL_TOPICS
        refused = [each for each in adding.partitions if each.topic in written_by_spus]
        missing = [each for each in adding.partitions if host.cluster.partition(*each) is None]
        if missing or refused:
            part.respond(_not_attempted(adding.partitions, missing, refused))
        else:
            client = None if is_from_spu else client_of(context)
            host.transactions.add_at_coordinator(adding, client, context.api_version, part)
    gathering.start()


class _Part:
    """Waits for the codes of one transaction's partitions."""

    def __init__(self, adding: Adding, gathering: Gathering) -> None:
        self._adding = adding
        self._part = gathering.part(self._refused)

    def respond(self, added: Added) -> None:
        self._part.respond(_result(self._adding.transactional_id, added))

    def refuse(self, error: KafkaError) -> None:
        self._part.refuse(error)

    def _refused(self, error: KafkaError) -> AddPartitionsToTxnResult:
        return _result(self._adding.transactional_id, dict.fromkeys(self._adding.partitions, error.code))


def _addings(request: AddPartitionsToTxnRequest, *, is_from_spu: bool) -> list[Adding]:
    if not is_from_spu:
        return [
            Adding(
                request.v3_and_below_transactional_id,
                request.v3_and_below_producer_id,
                request.v3_and_below_producer_epoch,
                _partitions(request.v3_and_below_topics),
                verify_only=False,
            )
        ]
    return [
        Adding(each.transactional_id, each.producer_id, each.producer_epoch, _partitions(each.topics), each.verify_only)
        for each in request.transactions
    ]


def _partitions(topics: Iterable[AddPartitionsToTxnTopic]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic.name, partition) for topic in topics for partition in topic.partitions)


def _not_attempted(
    partitions: Iterable[TopicPartition], missing: Iterable[TopicPartition], refused: Iterable[TopicPartition]
) -> Mapping[TopicPartition, ErrorCode]:
    codes = dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED)
    codes |= dict.fromkeys(missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return codes | dict.fromkeys(refused, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _result(transactional_id: str, added: Added) -> AddPartitionsToTxnResult:
    topics: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for (topic, partition), code in sorted(added.items()):
        topics.setdefault(topic, []).append(AddPartitionsToTxnPartitionResult(partition, code))
    return AddPartitionsToTxnResult(transactional_id, [AddPartitionsToTxnTopicResult(*each) for each in topics.items()])
