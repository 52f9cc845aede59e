"""CreateTopics, versions 2–7: creates each topic independently; the topics exist when the response leaves.

- A topic that the request names twice is refused. So are names that differ only in '.' and '_', even within one
  request, where Kafka overlooks them.
- -1 partitions or replicas stand for `num.partitions` and `default.replication.factor`. With a manual assignment both
  must be -1.
- From v5 on, the response has all configs that apply to the new topic.
- One request may add 10 000 partitions. A request for more is a POLICY_VIOLATION as a whole, as in Kafka.
- A client with a quota on changes gets THROTTLING_QUOTA_EXCEEDED for topics beyond it, from v6 on. Older clients get
  their topics, and have to wait after them.
- Topics that the SPUs have not created within the timeout are REQUEST_TIMED_OUT. They are created nevertheless.
"""

from collections import Counter

from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.cluster.configs.config_definitions import text_of
from tailrace.cluster.configs.topic_config_table import TOPIC_CONFIGS
from tailrace.cluster.configs.topic_configs import effective_value
from tailrace.cluster.specs import TopicSpec
from tailrace.cluster.topic_planning import NewTopic
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.ids import SpuId
from tailrace.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tailrace.server.host import AdministeringHost
from tailrace.server.request_context import RequestContext
from tailrace.server.throttling.counted_mutations import CountedMutations

DEFAULT = -1
CONFIGS_FROM = 5


async def handle(
    host: AdministeringHost, context: RequestContext, request: CreateTopicsRequest
) -> CreateTopicsResponse:
    times_named = Counter(topic.name for topic in request.topics)
    results: dict[str, CreatableTopicResult] = {}
    mutations = CountedMutations(context.mutations)
    added: dict[str, int] = {}
    wanted: list[NewTopic] = []
    for topic in request.topics:
        try:
            if times_named[topic.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "the request names this topic twice")
            new = _new_topic(topic, host.broker_configs)
            added[new.name] = _added(host, new)
            mutations.take(added[new.name])
            wanted.append(new)
        except KafkaError as error:
            results[topic.name] = _refused(topic.name, error)
    try:
        created = await host.administration.create_topics(
            wanted, validate_only=request.validate_only, timeout_ms=request.timeout_ms
        )
    except KafkaError as error:
        created = [error] * len(wanted)
    alike: dict[frozenset[tuple[str, str]], list[CreatableTopicConfigs]] = {}
    for new, outcome in zip(wanted, created, strict=True):
        if isinstance(outcome, KafkaError):
            mutations.give_back(added[new.name], outcome)
            results[new.name] = _refused(new.name, outcome)
            continue
        results[new.name] = _created(outcome)
        if context.api_version >= CONFIGS_FROM:
            key = frozenset(
                outcome.configs.items()
            )  # a request may have thousands of topics, most of them with the same configs
            if key not in alike:
                alike[key] = _configs(outcome, host.broker_configs)
            results[new.name].configs = alike[key]
    return CreateTopicsResponse(mutations.throttle_ms, [results[name] for name in times_named])


def _new_topic(topic: CreatableTopic, broker_configs: BrokerConfigs) -> NewTopic:
    configs = {config.name: config.value for config in topic.configs}
    if topic.assignments:
        if topic.num_partitions != DEFAULT or topic.replication_factor != DEFAULT:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "with a manual assignment, the numbers of partitions and replicas must be -1",
            )
        replica_map = {
            assignment.partition_index: tuple(SpuId(spu) for spu in assignment.broker_ids)
            for assignment in topic.assignments
        }
        if len(replica_map) != len(topic.assignments):
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "the manual assignment names a partition twice")
        return NewTopic(topic.name, DEFAULT, DEFAULT, replica_map, configs)
    settings = broker_configs.settings
    partitions = settings.partitions_default if topic.num_partitions == DEFAULT else topic.num_partitions
    replicas = settings.replication_factor_default if topic.replication_factor == DEFAULT else topic.replication_factor
    return NewTopic(topic.name, partitions, replicas, None, configs)


def _added(host: AdministeringHost, new: NewTopic) -> int:
    """Returns how many partitions the request adds. A topic that exists is refused, and must not use up a quota."""
    if host.administration.identify(new.name) is not None:
        return 0
    return max(0, new.partitions) if new.replica_map is None else len(new.replica_map)


def _created(topic: TopicSpec) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic.id,
        error_message=None,
        num_partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas),
    )


def _configs(topic: TopicSpec, broker_configs: BrokerConfigs) -> list[CreatableTopicConfigs]:
    configs = []
    for definition in TOPIC_CONFIGS.values():
        if not definition.hidden:
            value, source = effective_value(definition, topic.configs, broker_configs)
            configs.append(CreatableTopicConfigs(name=definition.name, value=text_of(value), config_source=source))
    return configs


def _refused(name: str, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=error.message or None)
