"""ElectLeaders, versions 0–2: elects the preferred replicas, or any replicas where there is no leader.

- Preferred (type 0): the first replica of a partition takes over if it is live.
- Unclean (type 1), only for partitions without a leader, whatever `unclean.leader.election.enable` says: the first
  online replica takes over, live replicas first. Records that only other replicas have are lost, as in Kafka.
- Without a list, the request means all partitions, and those that need no election are left out of the response.
- An election that has not happened within the timeout is REQUEST_TIMED_OUT. It may still happen.
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
        result.partition_result.append(_result(name, refusal))
    return ElectLeadersResponse(replica_election_results=list(results.values()))


def _names(host: AdministeringHost, request: ElectLeadersRequest) -> list[PartitionName]:
    """Returns the partitions that the request means, each once, in order."""
    if request.topic_partitions is None:
        topics = host.cluster.topics.values()
        return [PartitionName(topic.name, each.partition) for topic in topics for each in topic.partitions]
    named = (PartitionName(topic.topic, number) for topic in request.topic_partitions for number in topic.partitions)
    return list(dict.fromkeys(named))


def _result(name: PartitionName, refusal: KafkaError | None) -> PartitionResult:
    if refusal is None:
        return PartitionResult(name.partition, ErrorCode.NONE, None)
    return PartitionResult(name.partition, refusal.code, refusal.message or None)
