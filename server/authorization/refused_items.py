"""The items of requests: how each is named for a check, and how a refused one is answered."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tailrace.protocol.apis import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages import delete_records, describe_producers, list_offsets, offset_for_leader_epoch
from tailrace.protocol.messages.create_partitions import CreatePartitionsTopicResult
from tailrace.protocol.messages.delete_groups import DeletableGroupResult
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequestTopic,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tailrace.protocol.messages.offset_delete import OffsetDeleteResponsePartition, OffsetDeleteResponseTopic
from tailrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

from .access import Access


class ItemRule(NamedTuple):
    """How the items of a request are named and answered."""

    items: str
    """The field of the request that has the items."""
    name_of: Callable[[Access, Any], str | None]
    answer: Callable[[Any, ErrorCode, str], Any]
    """Makes the item of the response from the item of the request, an error code and a message."""
    results: str
    """The field of the response that has the results."""


def _name(access: Access, item: Any) -> str | None:
    name: str = item.name
    return name


def _name_or_id(access: Access, item: OffsetCommitRequestTopic) -> str | None:
    return access.topic_named(item.name, item.topic_id)


def _listed_offsets(topic: list_offsets.ListOffsetsTopic, code: ErrorCode, message: str) -> object:
    return list_offsets.ListOffsetsTopicResponse(
        topic.name,
        [list_offsets.ListOffsetsPartitionResponse(each.partition_index, code) for each in topic.partitions],
    )


def _deleted_records(topic: delete_records.DeleteRecordsTopic, code: ErrorCode, message: str) -> object:
    return delete_records.DeleteRecordsTopicResult(
        topic.name,
        [delete_records.DeleteRecordsPartitionResult(each.partition_index, -1, code) for each in topic.partitions],
    )


def _epoch_ends(topic: offset_for_leader_epoch.OffsetForLeaderTopic, code: ErrorCode, message: str) -> object:
    return offset_for_leader_epoch.OffsetForLeaderTopicResult(
        topic.topic, [offset_for_leader_epoch.EpochEndOffset(code, each.partition) for each in topic.partitions]
    )


def _described_producers(topic: describe_producers.TopicRequest, code: ErrorCode, message: str) -> object:
    return describe_producers.TopicResponse(
        topic.name,
        [describe_producers.PartitionResponse(number, code, message) for number in topic.partition_indexes],
    )


def refused_commit(topic: OffsetCommitRequestTopic, code: ErrorCode, message: str = "") -> OffsetCommitResponseTopic:
    """Refuses the offsets of a topic. The response has no place for the message."""
    return OffsetCommitResponseTopic(
        topic.name,
        topic.topic_id,
        [OffsetCommitResponsePartition(each.partition_index, code) for each in topic.partitions],
    )


def refused_txn_commit(
    topic: TxnOffsetCommitRequestTopic, code: ErrorCode, message: str = ""
) -> TxnOffsetCommitResponseTopic:
    """Refuses the offsets of a topic in a transaction. The response has no place for the message."""
    return TxnOffsetCommitResponseTopic(
        topic.name, [TxnOffsetCommitResponsePartition(each.partition_index, code) for each in topic.partitions]
    )


def _deleted_offsets(topic: Any, code: ErrorCode, message: str) -> object:
    return OffsetDeleteResponseTopic(
        topic.name, [OffsetDeleteResponsePartition(each.partition_index, code) for each in topic.partitions]
    )


ITEM_RULES: Mapping[int, ItemRule] = {
    ApiKey.LIST_OFFSETS: ItemRule("topics", _name, _listed_offsets, "topics"),
    ApiKey.DELETE_RECORDS: ItemRule("topics", _name, _deleted_records, "topics"),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: ItemRule("topics", lambda access, item: item.topic, _epoch_ends, "topics"),
    ApiKey.DESCRIBE_PRODUCERS: ItemRule("topics", _name, _described_producers, "topics"),
    ApiKey.CREATE_PARTITIONS: ItemRule(
        "topics",
        _name,
        lambda topic, code, message: CreatePartitionsTopicResult(topic.name, code, message),
        "results",
    ),
    ApiKey.OFFSET_COMMIT: ItemRule("topics", _name_or_id, refused_commit, "topics"),
    ApiKey.TXN_OFFSET_COMMIT: ItemRule("topics", _name, refused_txn_commit, "topics"),
    ApiKey.OFFSET_DELETE: ItemRule("topics", _name, _deleted_offsets, "topics"),
    ApiKey.DELETE_GROUPS: ItemRule(
        "groups_names",
        lambda access, group_id: group_id,
        lambda group_id, code, message: DeletableGroupResult(group_id, code),
        "results",
    ),
}
"""How the items of each API with such a guard are named and answered."""
