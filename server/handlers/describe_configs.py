"""DescribeConfigs, versions 1–4: every config of a topic, an SPU or a group, where it is set, and what it means.

- The resources are topics (2), SPUs (4), and under an empty name what was set at run time for all SPUs. As in Kafka, an
  SPU responds only for itself; the Streaming Controller responds for no SPU. The log of an SPU has one level, which is
  set when the SPU starts, so that there are no loggers (8) to list.
- As in Kafka, a group (32) has configs whether it exists or not: only its coordinator would know. Client metrics (16)
  have no configs here: INVALID_REQUEST.
- A resource that is named again with the same keys is described once. Otherwise a small request could block all others.
- Synonyms are all places where the config has a value; the one that applies comes first.
- Broker configs that Kafka's tools have set and Tailrace does not know are listed without their value, as in Kafka.
- Kafka 4.1 and later list `min.insync.replicas` of every topic as set for all brokers, because they store it when the
  eligible leader replicas of KIP-966 are enabled. Here it is a default until someone sets it.
- Without keys all configs are listed. Unknown keys are ignored.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from tailrace.cluster.configs.broker_config_table import BROKER_CONFIGS
from tailrace.cluster.configs.config_changes import ResourceKind
from tailrace.cluster.configs.config_definitions import (
    ConfigDefinition,
    ConfigSource,
    ConfiguredValue,
    foreign_definition,
    text_of,
)
from tailrace.cluster.configs.group_config_table import GROUP_CONFIGS
from tailrace.cluster.configs.topic_config_table import TOPIC_CONFIGS
from tailrace.cluster.configs.topic_configs import effective_value, places_of
from tailrace.cluster.topic_names import check_topic_name
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from tailrace.server.host import NO_SPU, Host
from tailrace.server.request_context import RequestContext

NO_EFFECT = " It is checked and stored, but has no effect in Tailrace yet."


class Entry(NamedTuple):
    """One config of a resource: its value, and the places where it is set."""

    definition: ConfigDefinition
    text: str | None
    source: ConfigSource
    places: list[ConfiguredValue]


Alike = dict[tuple[int, frozenset[tuple[str, str]]], list[Entry]]
"""The entries of resources that set the same configs, by resource kind and these configs. Tools ask for thousands of
topics at once, and most of them set the same."""


def handle(host: Host, context: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    alike: Alike = {}
    resources = {
        (each.resource_type, each.resource_name, frozenset(each.configuration_keys or ())): each
        for each in request.resources
    }
    return DescribeConfigsResponse(results=[_result(host, request, each, alike) for each in resources.values()])


def _result(
    host: Host, request: DescribeConfigsRequest, resource: DescribeConfigsResource, alike: Alike
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name
    )
    try:
        entries = _entries(host, resource, alike)
    except KafkaError as error:
        result.error_code = error.code
        result.error_message = error.message or None
        return result
    keys = frozenset(resource.configuration_keys or ())
    result.configs = [
        _described(entry, request)
        for entry in entries
        if not entry.definition.hidden and (not keys or entry.definition.name in keys)
    ]
    return result


def _entries(host: Host, resource: DescribeConfigsResource, alike: Alike) -> Iterable[Entry]:
    kind, name = resource.resource_type, resource.resource_name
    if kind == ResourceKind.TOPIC:
        topic = host.cluster.topics.get(name)
        if topic is None:
            check_topic_name(name)
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
        return _once(alike, kind, topic.configs, _of_topic(host, topic.configs))
    if kind == ResourceKind.BROKER and not name:
        return _of_all_spus(host)
    if kind in (ResourceKind.BROKER, ResourceKind.BROKER_LOGGER):
        if name != str(host.id) or host.id == NO_SPU:
            this = "the Streaming Controller" if host.id == NO_SPU else f"the SPU {host.id}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"this is {this}; it cannot describe {name!r:.100}")
        return _once(alike, kind, {}, _of_this_spu(host)) if kind == ResourceKind.BROKER else iter(())
    if kind == ResourceKind.GROUP:
        if not name:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "the configs of groups are described one group at a time: name a group"
            )
        own = host.cluster.group_configs.get(name, {})
        return _once(alike, kind, own, _of_group(host, own))
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"resources of type {kind} have no configs")


def _once(alike: Alike, kind: int, own: Mapping[str, str], entries: Iterator[Entry]) -> list[Entry]:
    """Returns the entries of a resource with these configs of its own, made once for all such resources."""
    key = kind, frozenset(own.items())
    if key not in alike:
        alike[key] = list(entries)
    return alike[key]


def _of_topic(host: Host, own: Mapping[str, str]) -> Iterator[Entry]:
    for definition in TOPIC_CONFIGS.values():
        value, source = effective_value(definition, own, host.broker_configs)
        yield Entry(definition, text_of(value), source, places_of(definition, own, host.broker_configs))


def _of_group(host: Host, own: Mapping[str, str]) -> Iterator[Entry]:
    for definition in GROUP_CONFIGS.values():
        value, source = effective_value(definition, own, host.broker_configs, ConfigSource.GROUP)
        places = places_of(definition, own, host.broker_configs, ConfigSource.GROUP)
        yield Entry(definition, text_of(value), source, places)


def _of_this_spu(host: Host) -> Iterator[Entry]:
    for definition in BROKER_CONFIGS.values():
        places = host.broker_configs.values(definition)
        if places:
            yield Entry(definition, places[0].text, places[0].source, places)
        else:
            yield Entry(definition, None, ConfigSource.DEFAULT, places)
    configs = host.broker_configs
    for name in sorted({*configs.dynamic_own, *configs.dynamic_default}.difference(BROKER_CONFIGS)):
        places = configs.layered((name,))
        yield Entry(foreign_definition(name), places[0].text, places[0].source, places)


def _of_all_spus(host: Host) -> Iterator[Entry]:
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER
    for name, text in sorted(host.broker_configs.dynamic_default.items()):
        definition = BROKER_CONFIGS.get(name) or foreign_definition(name)
        yield Entry(definition, text, source, [ConfiguredValue(name, text, source)])


def _described(entry: Entry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    definition = entry.definition
    described = DescribeConfigsResourceResult(
        name=definition.name,
        value=None if definition.sensitive else entry.text,
        read_only=definition.read_only,
        config_source=entry.source,
        is_default=entry.source == ConfigSource.DEFAULT,
        is_sensitive=definition.sensitive,
        config_type=definition.type,
        documentation=None,
    )
    if request.include_synonyms:
        described.synonyms = [
            DescribeConfigsSynonym(name=name, value=None if definition.sensitive else text, source=source)
            for name, text, source in entry.places
        ]
    if request.include_documentation:
        described.documentation = definition.documentation + ("" if definition.honoured else NO_EFFECT)
    return described
