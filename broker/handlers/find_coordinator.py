"""FindCoordinator, versions 0–6: which SPU coordinates a group or a transaction.

Neither groups nor transactions are served yet: every key of a kind that exists is answered COORDINATOR_NOT_AVAILABLE,
which clients take for "try again". `_coordinator` is the one place that will know better.
"""

from typing import TYPE_CHECKING

from tailrace.cluster.client_view import NOBODY, Broker
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from tailrace.server.request_context import RequestContext

if TYPE_CHECKING:
    from tailrace.broker.spu import Spu

GROUP = 0
TRANSACTION = 1
MANY_KEYS_FROM = 4


def handle(spu: "Spu", context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    if context.api_version >= MANY_KEYS_FROM:
        keys = dict.fromkeys(request.coordinator_keys)
        return FindCoordinatorResponse(coordinators=[_answer(spu, request.key_type, key) for key in keys])
    answer = _answer(spu, request.key_type, request.key)
    return FindCoordinatorResponse(
        error_code=answer.error_code,
        error_message=answer.error_message,
        node_id=answer.node_id,
        host=answer.host,
        port=answer.port,
    )


def _answer(spu: "Spu", key_type: int, key: str) -> Coordinator:
    try:
        broker = _coordinator(spu, key_type, key)
    except KafkaError as error:
        return Coordinator(key=key, node_id=NOBODY, port=NOBODY, error_code=error.code, error_message=error.message)
    return Coordinator(key=key, node_id=broker.id, host=broker.host, port=broker.port, error_message=None)


def _coordinator(spu: "Spu", key_type: int, key: str) -> Broker:
    if key_type not in (GROUP, TRANSACTION):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"nothing of key type {key_type} is coordinated here")
    raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "groups and transactions are not served yet")
