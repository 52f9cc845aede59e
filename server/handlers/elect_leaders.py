"""ElectLeaders, versions 0–2: the preferred replica leads where it can, or any replica where nobody else could.

- Preferred (type 0): the first of a partition's replicas takes over, if it is a live one.
- Unclean (type 1), for partitions without a leader, whatever `unclean.leader.election.enable` says: the first replica
  that is online leads, a live one before others, and what only others had is lost. Kafka does the same.
- Without a list all partitions are meant, and those that need no election are left out of the answer.
- What has not taken effect within the timeout is REQUEST_TIMED_OUT; it may still come.
"""

from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from tailrace.server.administration import PartitionName
from tailrace.server.host import AdministeringHost
from tailrace.server.request_context import RequestContext

PREFERRED, UNCLEAN = 0, 1


async def handle(
    host: AdministeringHost, context: RequestContext, request: ElectLeadersRequest
) -> ElectLeadersResponse:
    if request.election_type not in (PREFERRED, UNCLEAN):
        return ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST)
    names = _names(host, request)
    try:
        outcomes = await host.administration.elect_leaders(
            names, unclean=request.election_type == UNCLEAN, timeout_ms=request.timeout_ms
        )
    except KafkaError as error:
        outcomes = [error] * len(names)
    results: dict[str, ReplicaElectionResult] = {}
    for name, refusal in zip(names, outcomes, strict=True):
        if request.topic_partitions is None and refusal and refusal.code is ErrorCode.ELECTION_NOT_NEEDED:
            continue
        result = results.setdefault(name.topic, ReplicaElectionResult(name.topic))
        result.partition_result.append(_answer(name, refusal))
    return ElectLeadersResponse(replica_election_results=list(results.values()))


def _names(host: AdministeringHost, request: ElectLeadersRequest) -> list[PartitionName]:
    """Each once, in order."""
    if request.topic_partitions is None:
        topics = host.cluster.topics.values()
        return [PartitionName(topic.name, each.partition) for topic in topics for each in topic.partitions]
    named = (PartitionName(topic.topic, number) for topic in request.topic_partitions for number in topic.partitions)
    return list(dict.fromkeys(named))


def _answer(name: PartitionName, refusal: KafkaError | None) -> PartitionResult:
    if refusal is None:
        return PartitionResult(name.partition, ErrorCode.NONE, None)
    return PartitionResult(name.partition, refusal.code, refusal.message or None)
