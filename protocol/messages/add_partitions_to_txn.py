"""AddPartitionsToTxnRequest and AddPartitionsToTxnResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class AddPartitionsToTxnTopic(Struct):
    """Inside AddPartitionsToTxnRequest."""

    name: str = ""
    partitions: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("partitions", "int32", "0+", array=True),
    )


class AddPartitionsToTxnTransaction(Struct):
    """Inside AddPartitionsToTxnRequest."""

    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    verify_only: bool = False
    topics: list[AddPartitionsToTxnTopic] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("transactional_id", "string", "4+"),
        Field("producer_id", "int64", "4+"),
        Field("producer_epoch", "int16", "4+"),
        Field("verify_only", "bool", "4+"),
        Field("topics", AddPartitionsToTxnTopic, "4+", array=True),
    )


class AddPartitionsToTxnRequest(Struct):
    """Versions 0-5, flexible: 3+."""

    transactions: list[AddPartitionsToTxnTransaction] = field(default_factory=list)
    v3_and_below_transactional_id: str = ""
    v3_and_below_producer_id: int = 0
    v3_and_below_producer_epoch: int = 0
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(default_factory=list)

    API_KEY: ClassVar[int] = 24
    VERSIONS: ClassVar[str] = "0-5"
    FLEXIBLE: ClassVar[str] = "3+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("transactions", AddPartitionsToTxnTransaction, "4+", array=True),
        Field("v3_and_below_transactional_id", "string", "0-3"),
        Field("v3_and_below_producer_id", "int64", "0-3"),
        Field("v3_and_below_producer_epoch", "int16", "0-3"),
        Field("v3_and_below_topics", AddPartitionsToTxnTopic, "0-3", array=True),
    )


class AddPartitionsToTxnPartitionResult(Struct):
    """Inside AddPartitionsToTxnResponse."""

    partition_index: int = 0
    partition_error_code: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "0+"),
        Field("partition_error_code", "int16", "0+"),
    )


class AddPartitionsToTxnTopicResult(Struct):
    """Inside AddPartitionsToTxnResponse."""

    name: str = ""
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("results_by_partition", AddPartitionsToTxnPartitionResult, "0+", array=True),
    )


class AddPartitionsToTxnResult(Struct):
    """Inside AddPartitionsToTxnResponse."""

    transactional_id: str = ""
    topic_results: list[AddPartitionsToTxnTopicResult] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("transactional_id", "string", "4+"),
        Field("topic_results", AddPartitionsToTxnTopicResult, "4+", array=True),
    )


class AddPartitionsToTxnResponse(Struct):
    """Versions 0-5, flexible: 3+."""

    throttle_time_ms: int = 0
    error_code: int = 0
    results_by_transaction: list[AddPartitionsToTxnResult] = field(default_factory=list)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(default_factory=list)

    API_KEY: ClassVar[int] = 24
    VERSIONS: ClassVar[str] = "0-5"
    FLEXIBLE: ClassVar[str] = "3+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("error_code", "int16", "4+"),
        Field("results_by_transaction", AddPartitionsToTxnResult, "4+", array=True),
        Field("results_by_topic_v3_and_below", AddPartitionsToTxnTopicResult, "0-3", array=True),
    )
