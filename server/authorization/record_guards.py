"""The guards of Produce and Fetch, which serve what is allowed at full speed, and refuse the rest per partition.

An id that the mirror does not know is refused here. The server may have a replica of such a topic, for example while
the topic is being created, and its name is needed for the rules.
"""

from functools import partial
from uuid import UUID

from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import NO_TOPIC_ID, REPAIRING_REPLICA
from tailrace.protocol.messages.fetch import FetchRequest
from tailrace.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from tailrace.security.acls.acl_codes import CLUSTER_NAME
from tailrace.server.request_context import Reply, RequestContext

from .access import Access
from .authorization import Handle
from .authorization_row import Check, Row

NO_OFFSET = -1
NO_ACKS = 0


def produce(row: Row, access: Access, handle: Handle, context: RequestContext, request: ProduceRequest) -> Reply:
    """Lets records through for topics that the client may write to.

    Without acknowledgements, a refusal closes the connection after the other records were handled, as in Kafka.
    """
    transactional_id = request.transactional_id
    if transactional_id is None:
        access.refresh()
        writable = access.writable
        for topic in request.topic_data:
            if (topic.name or topic.topic_id) not in writable:
                break
        else:
            return handle(context, request)  # the usual case, for which the checks below would cost too much
    of_transaction, of_topic = row.checks
    if transactional_id is not None and not access.allows(of_transaction, transactional_id):
        message = access.refusal(of_transaction, transactional_id)
        refused = [_answer(topic, of_transaction.error, message) for topic in request.topic_data]
        return _refusal(context, request, refused, message)
    allowed: list[TopicProduceData] = []
    rows: list[TopicProduceResponse] = []
    message = ""
    for topic in request.topic_data:
        name = _name(access, topic)
        if name is None:
            code, message = ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic {topic.topic_id}"
        elif access.allows(of_topic, name):
            allowed.append(topic)
            continue
        else:
            code, message = of_topic.error, access.refusal(of_topic, name)
        rows.append(_answer(topic, code, message))
    if not rows:
        for topic in allowed:
            access.remember(access.writable, topic.name or topic.topic_id)
        return handle(context, request)
    if not allowed:
        return _refusal(context, request, rows, message)
    if request.acks == NO_ACKS:
        context.must_close = _why_closed(message)
    else:

        def amend(response: ProduceResponse) -> ProduceResponse:
            response.responses.extend(rows)
            return response

        context.amend = amend
    request.topic_data = allowed
    return handle(context, request)


def fetch(row: Row, access: Access, handle: Handle, context: RequestContext, request: FetchRequest) -> Reply:
    """Lets the handler ask for each topic whether the client may read it: the topics may be those of a session.

    A client that says it is a replica reads everything, if it may act as a broker, and nothing otherwise.
    """
    of_topic, of_replica = row.checks
    state = request.replica_state
    replica_id = request.replica_id if state is None else max(request.replica_id, state.replica_id)
    if replica_id < 0 and REPAIRING_REPLICA not in (request.replica_id, None if state is None else state.replica_id):
        context.may_read = partial(_may_read, access, of_topic)
    elif not access.allows(of_replica, CLUSTER_NAME):
        context.may_read = _may_read_nothing
    return handle(context, request)


def _may_read(access: Access, check: Check, topic: str | UUID) -> bool:
    access.refresh()
    if topic in access.readable:
        return True
    name = access.topic_named(None, topic) if isinstance(topic, UUID) else topic
    if name is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic {topic}")
    allowed = access.allows(check, name)
    if allowed:
        access.remember(access.readable, topic)
    return allowed


def _may_read_nothing(topic: str | UUID) -> bool:
    return False


def _name(access: Access, topic: TopicProduceData) -> str | None:
    return topic.name if topic.name or topic.topic_id == NO_TOPIC_ID else access.topic_named(None, topic.topic_id)


def _refusal(
    context: RequestContext, request: ProduceRequest, rows: list[TopicProduceResponse], message: str
) -> ProduceResponse | None:
    if request.acks == NO_ACKS:
        context.respond_nothing(close=_why_closed(message))
        return None
    return ProduceResponse(rows)


def _why_closed(message: str) -> str:
    return f"a record sent with acks=0 was refused: {message}"


def _answer(topic: TopicProduceData, code: ErrorCode, message: str) -> TopicProduceResponse:
    return TopicProduceResponse(
        topic.name,
        topic.topic_id,
        [
            PartitionProduceResponse(index=each.index, error_code=code, base_offset=NO_OFFSET, error_message=message)
            for each in topic.partition_data
        ],
    )
