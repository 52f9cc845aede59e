"""Items of requests: each API with a guard for items has a rule, and a refused item keeps its name."""

from typing import Any

import pytest

from tailrace.cluster.cluster import Cluster
from tailrace.protocol.apis import API_TABLE, ApiKey, message_class
from tailrace.protocol.codec.compile import encode_whole
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsTopic
from tailrace.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsTopic
from tailrace.protocol.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from tailrace.security.acls.authorizer import Authorizer
from tailrace.security.identity.principal import ANONYMOUS
from tailrace.server.authorization.access import Access
from tailrace.server.authorization.authorization_table import TABLE
from tailrace.server.authorization.refused_items import ITEM_RULES


def test_exactly_the_apis_whose_items_are_checked_have_a_rule() -> None:
    assert sorted(ITEM_RULES) == sorted(key for key, row in TABLE.items() if row.guard == "common_guards:each")


@pytest.mark.parametrize(
    ("key", "item"),
    [
        (ApiKey.LIST_OFFSETS, ListOffsetsTopic("orders", [ListOffsetsPartition(4)])),
        (ApiKey.DELETE_RECORDS, DeleteRecordsTopic("orders", [DeleteRecordsPartition(4, 7)])),
        (ApiKey.OFFSET_COMMIT, OffsetCommitRequestTopic("orders", partitions=[OffsetCommitRequestPartition(4, 7)])),
        (ApiKey.DELETE_GROUPS, "orders"),
    ],
)
def test_a_refused_item_is_answered_under_its_name_in_every_version(key: ApiKey, item: Any) -> None:
    cluster = Cluster()
    access = Access(Authorizer(cluster.security), cluster, lambda: True, ANONYMOUS, "127.0.0.1")
    rule = ITEM_RULES[key]
    assert rule.name_of(access, item) == "orders"
    answer = rule.answer(item, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no")
    assert "orders" in repr(answer)
    assert "29" in repr(answer)
    response = message_class(key, "Response")(**{rule.results: [answer]})
    for version in range(API_TABLE[key].min_version, API_TABLE[key].max_version + 1):
        encode_whole(response, version)
