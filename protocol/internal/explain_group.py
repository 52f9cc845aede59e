"""ExplainGroupRequest and ExplainGroupResponse, over all versions. Written by `tailrace.protocol.generate`: change the schema, not this."""

from typing import ClassVar

from msgspec import Struct, field

from tailrace.protocol.codec.fields import Field


class ExplainGroupRequest(Struct):
    """Versions 0, flexible: 0+."""

    group_id: str = ""

    API_KEY: ClassVar[int] = 12000
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "0+"),
    )


class RebalanceParticipant(Struct):
    """Inside ExplainGroupResponse."""

    member_id: str = ""
    instance_id: str | None = None
    client_id: str = ""
    host: str = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("member_id", "string", "0+"),
        Field("instance_id", "string", "0+", nullable="0+"),
        Field("client_id", "string", "0+"),
        Field("host", "string", "0+"),
    )


class RebalanceArrival(Struct):
    """Inside ExplainGroupResponse."""

    participant: RebalanceParticipant = field(default_factory=RebalanceParticipant)
    after_ms: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("participant", RebalanceParticipant, "0+"),
        Field("after_ms", "int64", "0+"),
    )


class RebalanceDeparture(Struct):
    """Inside ExplainGroupResponse."""

    participant: RebalanceParticipant = field(default_factory=RebalanceParticipant)
    after_ms: int = 0
    why: str = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("participant", RebalanceParticipant, "0+"),
        Field("after_ms", "int64", "0+"),
        Field("why", "string", "0+"),
    )


class ExplainedRebalance(Struct):
    """Inside ExplainGroupResponse."""

    cause: str = ""
    began_ms: int = 0
    joined_ms: int = -1
    ended_ms: int = -1
    generation: int = -1
    expected_count: int = 0
    expected: list[RebalanceParticipant] = field(default_factory=list)
    arrival_count: int = 0
    arrivals: list[RebalanceArrival] = field(default_factory=list)
    departure_count: int = 0
    departures: list[RebalanceDeparture] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("cause", "string", "0+"),
        Field("began_ms", "int64", "0+"),
        Field("joined_ms", "int64", "0+"),
        Field("ended_ms", "int64", "0+"),
        Field("generation", "int32", "0+"),
        Field("expected_count", "int32", "0+"),
        Field("expected", RebalanceParticipant, "0+", array=True),
        Field("arrival_count", "int32", "0+"),
        Field("arrivals", RebalanceArrival, "0+", array=True),
        Field("departure_count", "int32", "0+"),
        Field("departures", RebalanceDeparture, "0+", array=True),
    )


class GroupTransaction(Struct):
    """Inside ExplainGroupResponse."""

    producer_id: int = 0
    partition_count: int = 0
    since_ms: int = -1

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("producer_id", "int64", "0+"),
        Field("partition_count", "int32", "0+"),
        Field("since_ms", "int64", "0+"),
    )


class ExplainGroupResponse(Struct):
    """Versions 0, flexible: 0+."""

    error_code: int = 0
    error_message: str | None = None
    now_ms: int = 0
    partition: int = 0
    epoch: int = 0
    loaded_ms: int = 0
    group_type: str = ""
    state: str = ""
    session_timeout_ms: int = -1
    rebalance_timeout_ms: int = -1
    rebalances: list[ExplainedRebalance] = field(default_factory=list)
    transactions: list[GroupTransaction] = field(default_factory=list)

    API_KEY: ClassVar[int] = 12000
    VERSIONS: ClassVar[str] = "0"
    FLEXIBLE: ClassVar[str] = "0+"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("now_ms", "int64", "0+"),
        Field("partition", "int32", "0+"),
        Field("epoch", "int32", "0+"),
        Field("loaded_ms", "int64", "0+"),
        Field("group_type", "string", "0+"),
        Field("state", "string", "0+"),
        Field("session_timeout_ms", "int32", "0+"),
        Field("rebalance_timeout_ms", "int32", "0+"),
        Field("rebalances", ExplainedRebalance, "0+", array=True),
        Field("transactions", GroupTransaction, "0+", array=True, tag=0, tagged="0+"),
    )
