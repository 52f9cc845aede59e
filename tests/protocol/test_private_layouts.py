"""The layout of a private message's version on the wire never changes.

While a cluster is upgraded, one server after the other, programs of two versions talk to each other. A new field is
therefore a tagged field, which older programs skip, or it comes with a new version of the message, which they refuse
with an explanation. An additional field without a tag would be garbage to them.
"""

from pathlib import Path

import crc32c

from tailrace.protocol.codec.schema import FieldSchema, MessageSchema, parse
from tailrace.protocol.internal_apis import INTERNAL_KEY_MIN

SCHEMAS = Path(__file__).parents[2] / "protocol" / "schemas"
LAYOUTS = {
    "AllocateProducerIdsRequest 0": "00000000",
    "AllocateProducerIdsResponse 0": "ebab7df7",
    "AppendAuditRequest 0": "846c4c09",
    "AppendAuditResponse 0": "d5eb509a",
    "AppendMessage 0": "a3f1b9dd",
    "AppendReplyMessage 0": "9afd2a85",
    "ApplyMetadataRequest 0": "22e5486f",
    "ApplyMetadataResponse 0": "00000000",
    "ApplySpecsRequest 0": "428b241b",
    "ApplySpecsResponse 0": "4a032a12",
    "CreateObjectRequest 0": "5bb27306",
    "CreateObjectResponse 0": "ec413dc3",
    "DeleteObjectRequest 0": "5c2174ae",
    "DeleteObjectResponse 0": "4a032a12",
    "DescribePartitionsRequest 0": "c96fade2",
    "DescribePartitionsResponse 0": "5524e818",
    "DescribePositionsRequest 0": "0bcf75e0",
    "DescribePositionsResponse 0": "8a8c437e",
    "DescribeReplicaSegmentsRequest 0": "ea4155b1",
    "DescribeReplicaSegmentsResponse 0": "89fb7116",
    "DescribeReplicasRequest 0": "60753b29",
    "DescribeReplicasResponse 0": "0be793bd",
    "DescribeSegmentsRequest 0": "63c166d7",
    "DescribeSegmentsResponse 0": "a8b28365",
    "DescribeServerRequest 0": "00000000",
    "DescribeServerResponse 0": "6a1d44b4",
    "DescribeSpuRequest 0": "00000000",
    "DescribeSpuResponse 0": "f805b104",
    "ExplainGroupRequest 0": "d5eb509a",
    "ExplainGroupResponse 0": "50e3cff6",
    "ExplainTransactionRequest 0": "d5eb509a",
    "ExplainTransactionResponse 0": "8629fd0e",
    "FencedMessage 0": "36d064c4",
    "FetchEntriesMessage 0": "dcc62253",
    "FetchedEntriesMessage 0": "560a1886",
    "FillShelfRequest 0": "1c03e760",
    "FillShelfResponse 0": "ab6cd9d9",
    "ForwardRequest 0": "4bb14801",
    "ForwardResponse 0": "3282be1b",
    "HelloMessage 0": "315151f6",
    "IntroduceMessage 0": "e7689980",
    "LeaveRequest 0": "00000000",
    "LeaveResponse 0": "00000000",
    "ListObjectsRequest 0": "81bbab5c",
    "ListObjectsResponse 0": "870e6475",
    "PingMessage 0": "00000000",
    "ReadShelfRequest 0": "327e37b3",
    "ReadShelfResponse 0": "0f94d004",
    "ReadStoreRequest 0": "f2c09937",
    "ReadStoreResponse 0": "02b6bef3",
    "ReadArchiveHeadRequest 0": "d5eb509a",
    "ReadArchiveHeadResponse 0": "8f48fdf1",
    "ReadStreamStateRequest 0": "6c5671b5",
    "ReadStreamStateResponse 0": "49a1088f",
    "ReadTriggerLogRequest 0": "93a46681",
    "ReadTriggerLogResponse 0": "757f2347",
    "RefuseMessage 0": "abb6d127",
    "RegisterSpuRequest 0": "a5b9c674",
    "RegisterSpuResponse 0": "60871a20",
    "RenewLeaseRequest 0": "00000000",
    "RenewLeaseResponse 0": "dfa5157e",
    "ReportLiveReplicasRequest 0": "fd303209",
    "ReportLiveReplicasResponse 0": "dfa5157e",
    "ReportShelvesRequest 0": "44fa581f",
    "ReportShelvesResponse 0": "dfa5157e",
    "ReportTriggerRequest 0": "e2a21332",
    "ReportTriggerResponse 0": "4a032a12",
    "SealMessage 0": "477c303c",
    "SealReplyMessage 0": "a8a3916e",
    "UndeleteTopicRequest 0": "d5eb509a",
    "UndeleteTopicResponse 0": "ec413dc3",
    "UpdateObjectRequest 0": "9d3f5624",
    "UpdateObjectResponse 0": "ec413dc3",
    "WriteArchiveHeadRequest 0": "d01dd500",
    "WriteArchiveHeadResponse 0": "965160a3",
    "WriteStreamStateRequest 0": "328847f8",
    "WriteStreamStateResponse 0": "965160a3",
}
"""Hashes of the fields without a tag, as of 2026-11-23. A line may be added, but a changed line breaks upgrades."""


def _layout(message: MessageSchema) -> str:
    structs = {struct.name: struct for struct in message.structs}

    def shown(fields: tuple[FieldSchema, ...]) -> str:
        return ",".join(shown_one(field) for field in fields if field.tag < 0)

    def shown_one(field: FieldSchema) -> str:
        kind = f"({shown(structs[field.kind].fields)})" if field.is_struct else field.kind
        return f"{kind}{'[]' if field.is_array else ''}{field.versions}{field.nullable}"

    return shown(message.root.fields)


def _found() -> dict[str, str]:
    messages = [parse(path.read_text()) for path in sorted(SCHEMAS.glob("*.json"))]
    private = [each for each in messages if each.api_key is not None and each.api_key >= INTERNAL_KEY_MIN]
    return {f"{each.name} {each.versions}": f"{crc32c.crc32c(_layout(each).encode()):08x}" for each in private}


def test_the_layout_on_the_wire_does_not_change() -> None:
    assert _found() == LAYOUTS
