"""Administers topics, partitions and configs through any broker, with Kafka's protocol alone.

Every broker forwards changes to its controller. So the client asks the server that it has found first: a broker at a
bootstrap address, or the SC. Only the configs of a broker, and deletions of records, are asked of a certain broker.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from tailrace.runtime.network import Address
from tailrace.security.acls.acl_filters import AclFilter
from tailrace.security.quotas.quota_filters import EntityFilter
from tailrace.security.records.acl_record import AclRecord
from tailrace.security.records.quota_record import QuotaEntity, QuotaRecord, ordered_entity

from .log_client import LogClient
from .log_facts import Partition, by_topic
from .server_connection import RefusedError, check, refusal, unless_refused
from .spu_client import SpuClient

if TYPE_CHECKING:
    from tailrace.protocol.messages.describe_acls import DescribeAclsResponse
    from tailrace.protocol.messages.describe_configs import DescribeConfigsResult

CHANGE_TIMEOUT_MS = 30_000
"""How long a broker may take for a change; less than the client waits for its response."""
DELETION_TIMEOUT_MS = 5_000
"""How long a leader may wait for its followers to delete records. The request is sent again after that."""
TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
GROUP_RESOURCE = 32
_SET = 0
_DELETE = 1
_PREFERRED = 0
_UNCLEAN = 1


class NewTopic(Struct, frozen=True):
    """A topic to create. -1 stands for the default of the cluster."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    rows: Mapping[int, Sequence[int]] | None = None
    """The replicas of each partition, the leader first; instead of the two numbers."""
    configs: Mapping[str, str] = {}


class ConfigResource(Struct, frozen=True):
    """A topic, a broker, the default of all brokers (an empty name), or a group."""

    kind: int
    name: str


class ConfigSynonym(Struct, frozen=True):
    """A place from which a config can get its value."""

    name: str
    value: str | None
    source: int


class Config(Struct, frozen=True):
    """A config with the value that is in effect, and what the server says about it."""

    name: str
    value: str | None
    source: int
    """Kafka's number of the place from which the value comes; see `config_tables.SOURCES`."""
    is_read_only: bool
    is_sensitive: bool
    type: int
    documentation: str | None
    synonyms: tuple[ConfigSynonym, ...]


class Reassignment(Struct, frozen=True):
    """Replicas of a partition that are being moved."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class KnownBroker(Struct, frozen=True):
    """A broker, as clients of the asked listener see it."""

    id: int
    address: Address
    rack: str | None
    is_fenced: bool
    """Whether the controller knows the broker, but no client may use it, because it is not online."""


class StoredReplica(Struct, frozen=True):
    """A replica as the broker that stores it describes it."""

    broker: int
    partition: Partition
    size_bytes: int
    lag: int
    """How many records before the high watermark are missing."""
    directory: str
    is_future: bool
    """Whether the replica is being copied to this directory from another one of the broker."""


def acl_records(response: "DescribeAclsResponse") -> list[AclRecord]:
    """Returns the access rules in a response."""
    return [
        AclRecord(
            each.resource_type,
            each.pattern_type,
            each.resource_name,
            rule.principal,
            rule.host,
            rule.operation,
            rule.permission_type,
        )
        for each in response.resources
        for rule in each.acls
    ]


class AdminClient:
    """Administers a cluster. Raises RefusedError with the server's reason, and UnreachableError."""

    def __init__(self, spus: SpuClient) -> None:
        self._spus = spus
        self.logs = LogClient(spus)

    # topics

    async def topics(self, names: Sequence[str] | None = None) -> list[MetadataResponseTopic]:
        """Describes all topics, or those with some names, ordered by name. Raises RefusedError for a missing one."""
        response = await (self._spus.metadata_of_all() if names is None else self._spus.metadata(names))
        for topic in response.topics:
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise RefusedError(f"there is no topic {topic.name!r}", topic.error_code)
            check(topic)
        return sorted(response.topics, key=lambda topic: topic.name or "")

    async def cluster(self) -> MetadataResponse:
        """Returns the brokers that are online, the controller and the id of the cluster."""
        return await self._spus.metadata()

    async def brokers(self) -> list[KnownBroker]:
        """Returns all brokers that the server knows, including those that are not online."""
        from tailrace.protocol.messages.describe_cluster import DescribeClusterRequest

        response = await self._ask(DescribeClusterRequest(include_fenced_brokers=True))
        check(response)
        found = [
            KnownBroker(each.broker_id, Address(each.host, each.port), each.rack, each.is_fenced)
            for each in response.brokers
        ]
        return sorted(found, key=lambda broker: broker.id)

    async def create_topic(self, topic: NewTopic, *, validate_only: bool = False) -> Any:
        """Creates a topic and returns the server's result, which has its partitions, replication factor and id."""
        from tailrace.protocol.messages.create_topics import (
            CreatableReplicaAssignment,
            CreatableTopic,
            CreatableTopicConfig,
            CreateTopicsRequest,
        )

        rows = topic.rows or {}
        wanted = CreatableTopic(
            topic.name,
            -1 if rows else topic.partitions,
            -1 if rows else topic.replication_factor,
            [CreatableReplicaAssignment(number, list(row)) for number, row in sorted(rows.items())],
            [CreatableTopicConfig(name, value) for name, value in topic.configs.items()],
        )
        response = await self._ask(CreateTopicsRequest([wanted], CHANGE_TIMEOUT_MS, validate_only))
        return _the_only(response.topics)

    async def delete_topic(self, name: str) -> None:
        """Deletes a topic."""
        from tailrace.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

        request = DeleteTopicsRequest([DeleteTopicState(name)], [name], CHANGE_TIMEOUT_MS)
        _the_only((await self._ask(request)).responses)

    async def add_partitions(self, topic: str, count: int, rows: Sequence[Sequence[int]] | None = None) -> None:
        """Increases the number of partitions to `count`; `rows` are the replicas of the added ones."""
        from tailrace.protocol.messages.create_partitions import (
            CreatePartitionsAssignment,
            CreatePartitionsRequest,
            CreatePartitionsTopic,
        )

        assignments = None if rows is None else [CreatePartitionsAssignment(list(row)) for row in rows]
        request = CreatePartitionsRequest([CreatePartitionsTopic(topic, count, assignments)], CHANGE_TIMEOUT_MS)
        _the_only((await self._ask(request)).results)

    # configs

    async def config_resources(self, kind: int) -> list[str]:
        """Lists the names of the resources of a kind; the brokers are those that are online."""
        from tailrace.protocol.messages.list_config_resources import ListConfigResourcesRequest

        if kind == TOPIC_RESOURCE:
            return [topic.name or "" for topic in await self.topics()]
        if kind == BROKER_RESOURCE:
            return [str(broker) for broker in await self._spus.spus()]
        response = await self._ask(ListConfigResourcesRequest([kind]))
        check(response)
        return sorted(each.resource_name for each in response.config_resources)

    async def configs(self, resource: ConfigResource, *, documented: bool = True) -> list[Config]:
        """Returns all configs of a resource, ordered by name."""
        return unless_refused((await self.configs_of([resource], documented=documented))[resource])

    async def configs_of(
        self, resources: Iterable[ConfigResource], *, documented: bool = False
    ) -> dict[ConfigResource, list[Config] | RefusedError]:
        """Returns the configs of many resources with few requests, or why they cannot be described.

        A broker describes itself, and any broker describes the others. The SC is not asked, because it does not know
        the configs with which brokers were started.
        """
        by_broker: dict[str, list[ConfigResource]] = {}
        for each in dict.fromkeys(resources):
            by_broker.setdefault(each.name if each.kind == BROKER_RESOURCE else "", []).append(each)
        found: dict[ConfigResource, list[Config] | RefusedError] = {}
        for name, wanted in by_broker.items():
            try:
                found |= await self._configs_from(name, wanted, documented)
            except RefusedError as refused:
                if len(by_broker) == 1:
                    raise
                found |= dict.fromkeys(wanted, refused)
        return found

    async def _configs_from(
        self, broker: str, resources: Sequence[ConfigResource], documented: bool
    ) -> dict[ConfigResource, list[Config] | RefusedError]:
        """Asks one broker, or any broker if the name is empty."""
        from tailrace.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

        wanted = [DescribeConfigsResource(each.kind, each.name, None) for each in resources]
        request = DescribeConfigsRequest(wanted, include_synonyms=True, include_documentation=documented)
        response = await (self._ask_broker(broker, request) if broker else self._spus.ask_any(request))
        return {
            ConfigResource(each.resource_type, each.resource_name): refusal(each) or _configs(each)
            for each in response.results
        }

    async def alter_configs(
        self, resource: ConfigResource, changes: Mapping[str, str | None], *, validate_only: bool = False
    ) -> None:
        """Sets configs; None resets a config to what it is without this resource's own value."""
        from tailrace.protocol.messages.incremental_alter_configs import (
            AlterableConfig,
            AlterConfigsResource,
            IncrementalAlterConfigsRequest,
        )

        configs = [AlterableConfig(name, _DELETE if value is None else _SET, value) for name, value in changes.items()]
        wanted = AlterConfigsResource(resource.kind, resource.name, configs)
        _the_only((await self._ask_of(resource, IncrementalAlterConfigsRequest([wanted], validate_only))).responses)

    # quotas

    async def quotas(self, filters: Sequence[EntityFilter] = (), *, is_strict: bool = False) -> list[QuotaRecord]:
        """Returns the quotas whose entities match all filters; if `is_strict`, the entities have no other parts."""
        from tailrace.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

        components = [ComponentData(each.type, each.match, each.name) for each in filters]
        response = await self._ask(DescribeClientQuotasRequest(components, is_strict))
        check(response)
        return [
            QuotaRecord(
                ordered_entity({part.entity_type: part.entity_name for part in entry.entity}),
                {each.key: each.value for each in entry.values},
            )
            for entry in response.entries or ()
        ]

    async def alter_quotas(
        self, entity: QuotaEntity, changes: Mapping[str, float | None], *, validate_only: bool = False
    ) -> None:
        """Sets limits of an entity; None removes a limit."""
        from tailrace.protocol.messages.alter_client_quotas import (
            AlterClientQuotasRequest,
            EntityData,
            EntryData,
            OpData,
        )

        ops = [OpData(name, 0.0 if value is None else value, value is None) for name, value in changes.items()]
        entry = EntryData([EntityData(*part) for part in entity], ops)
        _the_only((await self._ask(AlterClientQuotasRequest([entry], validate_only))).entries)

    # access rules

    async def acls(self, chosen: AclFilter) -> list[AclRecord]:
        """Returns the access rules that a filter selects."""
        from tailrace.protocol.messages.describe_acls import DescribeAclsRequest

        response = await self._ask(
            DescribeAclsRequest(
                chosen.resource_type,
                chosen.resource_name,
                chosen.pattern_type,
                chosen.principal,
                chosen.host,
                chosen.operation,
                chosen.permission,
            )
        )
        check(response)
        return acl_records(response)

    async def create_acls(self, rules: Sequence[AclRecord]) -> None:
        """Creates access rules; those that exist are left as they are."""
        from tailrace.protocol.messages.create_acls import AclCreation, CreateAclsRequest

        creations = [
            AclCreation(
                rule.resource_type,
                rule.resource_name,
                rule.pattern_type,
                rule.principal,
                rule.host,
                rule.operation,
                rule.permission,
            )
            for rule in rules
        ]
        for result in (await self._ask(CreateAclsRequest(creations))).results:
            check(result)

    async def delete_acls(self, filters: Sequence[AclFilter]) -> list[AclRecord]:
        """Deletes the access rules that filters select, and returns them."""
        from tailrace.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest

        asked = [
            DeleteAclsFilter(
                each.resource_type,
                each.resource_name,
                each.pattern_type,
                each.principal,
                each.host,
                each.operation,
                each.permission,
            )
            for each in filters
        ]
        deleted: dict[AclRecord, None] = {}
        for result in (await self._ask(DeleteAclsRequest(asked))).filter_results:
            check(result)
            for each in result.matching_acls:
                check(each)
                rule = AclRecord(
                    each.resource_type,
                    each.pattern_type,
                    each.resource_name,
                    each.principal,
                    each.host,
                    each.operation,
                    each.permission_type,
                )
                deleted[rule] = None
        return list(deleted)

    # partitions

    async def stored_replicas(self, partitions: Iterable[Partition] | None = None) -> list[StoredReplica]:
        """Asks each broker that is online for the replicas in its directories: all of them, or those of partitions."""
        from tailrace.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest

        topics = None if partitions is None else [DescribableLogDirTopic(*each) for each in by_topic(partitions)]

        async def itself(keys: Sequence[int]) -> dict[int, int | RefusedError]:
            return {each: each for each in keys}

        async def ask(spu_id: int, keys: Sequence[int]) -> dict[int, Any]:
            response = await self._spus.ask(spu_id, DescribeLogDirsRequest(topics))
            return dict.fromkeys(keys, refusal(response) or response)

        answers = await self._spus.ask_each(await self._spus.spus(), itself, ask)
        found = [
            StoredReplica(
                broker,
                Partition(topic.name, each.partition_index),
                each.partition_size,
                each.offset_lag,
                directory.log_dir,
                each.is_future_key,
            )
            for broker, answer in answers.items()
            for directory in unless_refused(answer).results
            for topic in directory.topics
            for each in topic.partitions
        ]
        return sorted(found, key=lambda replica: (replica.partition, replica.broker))

    async def delete_records(self, before: Mapping[Partition, int]) -> dict[Partition, int | RefusedError]:
        """Deletes the records before an offset in each partition (-1: before the high watermark).

        Returns the first offset that is left in each partition, or why nothing was deleted.
        """
        from tailrace.protocol.messages.delete_records import (
            DeleteRecordsPartition,
            DeleteRecordsRequest,
            DeleteRecordsTopic,
        )

        async def ask(spu_id: int, keys: Sequence[Partition]) -> dict[Partition, int | RefusedError]:
            topics = [
                DeleteRecordsTopic(
                    topic, [DeleteRecordsPartition(number, before[Partition(topic, number)]) for number in numbers]
                )
                for topic, numbers in by_topic(keys)
            ]
            response = await self._spus.ask(spu_id, DeleteRecordsRequest(topics, DELETION_TIMEOUT_MS))
            return {
                Partition(topic.name, each.partition_index): refusal(each) or each.low_watermark
                for topic in response.topics
                for each in topic.partitions
            }

        async def leaders(keys: Sequence[Partition]) -> Mapping[Partition, int | RefusedError]:
            places = await self._spus.leaders(keys)
            return {each: places[each] for each in keys}

        return await self._spus.ask_each(before, leaders, ask)

    async def elect_leaders(
        self, partitions: Iterable[Partition] | None, *, unclean: bool = False
    ) -> dict[Partition, RefusedError | None]:
        """Elects the preferred leaders of partitions, or of all (None). `unclean` elects any replica instead.

        Returns for each partition in the response why no leader was elected, or None if one was.
        """
        from tailrace.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

        wanted = None if partitions is None else [TopicPartitions(*each) for each in by_topic(partitions)]
        kind = _UNCLEAN if unclean else _PREFERRED
        response = await self._ask(ElectLeadersRequest(kind, wanted, CHANGE_TIMEOUT_MS))
        check(response)
        return {
            Partition(topic.topic, each.partition_id): refusal(each)
            for topic in response.replica_election_results
            for each in topic.partition_result
        }

    async def reassign(
        self, replicas: Mapping[Partition, Sequence[int] | None]
    ) -> dict[Partition, RefusedError | None]:
        """Begins to move the replicas of partitions; None cancels a move. Returns what was refused."""
        from tailrace.protocol.messages.alter_partition_reassignments import (
            AlterPartitionReassignmentsRequest,
            ReassignablePartition,
            ReassignableTopic,
        )

        topics = []
        for topic, numbers in by_topic(replicas):
            rows = [(number, replicas[Partition(topic, number)]) for number in numbers]
            topics.append(
                ReassignableTopic(
                    topic, [ReassignablePartition(number, None if row is None else list(row)) for number, row in rows]
                )
            )
        response = await self._ask(AlterPartitionReassignmentsRequest(CHANGE_TIMEOUT_MS, topics=topics))
        check(response)
        return {
            Partition(topic.name, each.partition_index): refusal(each)
            for topic in response.responses
            for each in topic.partitions
        }

    async def reassignments(self) -> dict[Partition, Reassignment]:
        """Returns all moves that are under way."""
        from tailrace.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest

        response = await self._ask(ListPartitionReassignmentsRequest(CHANGE_TIMEOUT_MS, None))
        check(response)
        return {
            Partition(topic.name, each.partition_index): Reassignment(
                tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
            )
            for topic in response.topics
            for each in topic.partitions
        }

    async def _ask_of(self, resource: ConfigResource, request: Any) -> Any:
        """Asks the broker that a resource names, or any server."""
        if resource.kind != BROKER_RESOURCE or not resource.name:
            return await self._ask(request)
        return await self._ask_broker(resource.name, request)

    async def _ask_broker(self, name: str, request: Any) -> Any:
        if not name.isdecimal():
            raise RefusedError(f"{name!r} is not the id of a broker", ErrorCode.INVALID_REQUEST)
        if int(name) not in await self._spus.spus():
            raise RefusedError(f"the broker {name} is not online", ErrorCode.BROKER_NOT_AVAILABLE)
        return await self._spus.ask(int(name), request)

    async def _ask(self, request: Any) -> Any:
        return await self._spus.ask_first(request)


def _configs(result: "DescribeConfigsResult") -> list[Config]:
    """Returns the configs of one resource, ordered by name."""
    found = [
        Config(
            each.name,
            each.value,
            each.config_source,
            each.read_only,
            each.is_sensitive,
            each.config_type,
            each.documentation,
            tuple(ConfigSynonym(one.name, one.value, one.source) for one in each.synonyms),
        )
        for each in result.configs
    ]
    return sorted(found, key=lambda config: config.name)


def _the_only(results: Sequence[Any]) -> Any:
    """Returns the only result of a response. Raises RefusedError if it has an error, or is missing."""
    if len(results) != 1:
        raise RefusedError("the response does not contain this")
    check(results[0])
    return results[0]
