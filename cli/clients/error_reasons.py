"""What errors mean of which a server has sent the code alone, in words."""

from tailrace.protocol.error_codes import ErrorCode

from .server_connection import RefusedError, error_name

_REASONS = {
    ErrorCode.NON_EMPTY_GROUP: "it has members",
    ErrorCode.UNKNOWN_MEMBER_ID: "it has members, who alone may commit",
    ErrorCode.ILLEGAL_GENERATION: "it has members, who alone may commit",
    ErrorCode.STALE_MEMBER_EPOCH: "it has members, who alone may commit",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "its members are subscribed to the topic",
    ErrorCode.MESSAGE_TOO_LARGE: "a record is larger than the topic allows (max.message.bytes)",
    ErrorCode.NOT_ENOUGH_REPLICAS: "fewer replicas are in sync than the topic asks for (min.insync.replicas)",
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: (
        "fewer replicas are in sync than the topic asks for (min.insync.replicas)"
    ),
    ErrorCode.REQUEST_TIMED_OUT: "its replicas did not take it in time",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "there is no such partition",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "who leads it cannot be found",
    ErrorCode.OFFSET_NOT_AVAILABLE: "its new leader has not recovered yet what the one before left",
    ErrorCode.KAFKA_STORAGE_ERROR: "the disk of its leader has failed",
    ErrorCode.GROUP_ID_NOT_FOUND: "there is no such group",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "its coordinator is still loading the groups",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "nobody coordinates it at the moment",
    ErrorCode.LEADER_NOT_AVAILABLE: "nobody leads it at the moment",
}


def reason_of(refused: RefusedError) -> str:
    """In words, also where the server has sent a code alone."""
    if str(refused) != error_name(refused.code):
        return str(refused)
    return _REASONS.get(ErrorCode(refused.code), str(refused)) if refused.code in set(ErrorCode) else str(refused)
