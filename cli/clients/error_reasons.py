"""Explains error codes that a server sent without a message."""

from tailrace.protocol.error_codes import ErrorCode

from .server_connection import RefusedError, error_name

_REASONS = {
    ErrorCode.NON_EMPTY_GROUP: "the group has members",
    ErrorCode.UNKNOWN_MEMBER_ID: "the group has members, and only they may commit",
    ErrorCode.ILLEGAL_GENERATION: "the group has members, and only they may commit",
    ErrorCode.STALE_MEMBER_EPOCH: "the group has members, and only they may commit",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "members of the group subscribe to the topic",
    ErrorCode.MESSAGE_TOO_LARGE: "a record is larger than the topic allows (max.message.bytes)",
    ErrorCode.NOT_ENOUGH_REPLICAS: "fewer replicas are in sync than the topic requires (min.insync.replicas)",
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: (
        "fewer replicas are in sync than the topic requires (min.insync.replicas)"
    ),
    ErrorCode.REQUEST_TIMED_OUT: "the replicas did not acknowledge the records in time",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "there is no such partition",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "the leader cannot be found",
    ErrorCode.OFFSET_NOT_AVAILABLE: "the new leader has not completed its recovery",
    ErrorCode.KAFKA_STORAGE_ERROR: "the disk of the leader has failed",
    ErrorCode.GROUP_ID_NOT_FOUND: "there is no such group",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "the coordinator is still loading the groups",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "the group has no coordinator at the moment",
    ErrorCode.LEADER_NOT_AVAILABLE: "the partition has no leader at the moment",
}


def reason_of(refused: RefusedError) -> str:
    """Returns the server's message, or an explanation if the server sent only a code."""
    if str(refused) != error_name(refused.code):
        return str(refused)
    return _REASONS.get(ErrorCode(refused.code), str(refused)) if refused.code in set(ErrorCode) else str(refused)
