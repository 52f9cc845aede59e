"""Every object that there can be, for tests of properties."""

from itertools import pairwise
from uuid import UUID

from hypothesis import strategies as st
from security_samples import RECORDS

from tailrace.cluster.specs import Shelf
from tailrace.controller.objects.objects import (
    ArchiveHead,
    ClusterIdentity,
    ConfigOverrides,
    DeletedTopic,
    Encryption,
    FunctionSnapshot,
    GroupConfigs,
    Partition,
    PartitionResolution,
    PartitionSpec,
    PartitionStatus,
    PrivateEndpoint,
    ProducerIdBlock,
    PublicEndpoint,
    PublicListener,
    SecurityEntry,
    Spu,
    SpuGroup,
    SpuGroupResolution,
    SpuGroupSpec,
    SpuGroupStatus,
    SpuResolution,
    SpuSpec,
    SpuStatus,
    SpuTemplate,
    SpuType,
    StreamAttribute,
    Topic,
    TopicResolution,
    TopicSpec,
    TopicStatus,
    Trigger,
    TriggerResolution,
    TriggerSpec,
    TriggerStatus,
)
from tailrace.protocol.ids import Epoch, SpuId
from tailrace.runtime.network import Address
from tailrace.security.settings.security_protocol import SecurityProtocol

_ids = st.builds(SpuId, st.integers(0, 2**31 - 1))
_texts = st.text(st.characters(codec="utf-8"), max_size=8)
_words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
_ports = st.integers(0, 65535)
_hosts = st.from_regex(r"[a-z0-9.:-]{1,9}", fullmatch=True)
_names = st.from_regex(r"[a-zA-Z0-9._-]{1,12}", fullmatch=True)
_configs = st.dictionaries(_names, _texts, max_size=2)
_sizes = st.none() | st.integers(1, 2**63 - 1) | st.integers(1, 2**20).map(lambda count: count * 1024)
_encryptions = st.none() | st.sampled_from(Encryption)
_protocols = st.sampled_from(SecurityProtocol)
_publics = st.builds(PublicEndpoint, _ports, st.lists(_hosts, max_size=2).map(tuple), _encryptions)
_privates = st.builds(PrivateEndpoint, _ports, _hosts, _encryptions)
_topic_ids = st.builds(UUID, int=st.integers(0, 2**128 - 1))
_rows = st.dictionaries(st.integers(0, 40), st.lists(_ids, max_size=3).map(tuple), max_size=3).map(
    lambda rows: dict(sorted(rows.items()))
)

spus = st.builds(
    Spu,
    st.builds(
        SpuSpec,
        _ids,
        st.sampled_from(SpuType),
        st.none() | _words,
        _publics,
        _privates,
        _sizes,
        st.none() | _words,
        st.none() | _names,
        _configs,
    ),
    st.builds(
        SpuStatus,
        st.sampled_from(SpuResolution),
        _texts,
        _texts,
        st.lists(st.builds(PublicListener, _words, _hosts, _ports, st.booleans(), _protocols), max_size=2).map(tuple),
        st.none() | st.builds(Address, _hosts, _ports),
        _texts,
    ),
)
spu_groups = st.builds(
    SpuGroup,
    _names,
    st.builds(
        SpuGroupSpec,
        st.integers(1, 1000),
        st.builds(SpuId, st.integers(0, 2**31 - 1001)),
        st.builds(SpuTemplate, st.none() | _words, _publics, _privates, _sizes, st.none() | _words, _configs),
    ),
    st.builds(SpuGroupStatus, st.sampled_from(SpuGroupResolution), _texts),
)
topics = st.builds(
    Topic,
    _names,
    _topic_ids,
    st.builds(TopicSpec, st.integers(1, 1000), st.integers(1, 2**15 - 1), _rows, st.booleans(), _configs),
    st.builds(TopicStatus, st.sampled_from(TopicResolution), _rows, _texts),
)


def _in_order(offsets: list[int], stores: list[list[SpuId]]) -> tuple[Shelf, ...]:
    """The last of the SPUs get it, where there are several."""
    bounds = pairwise(sorted(offsets))
    return tuple(
        Shelf(base, end, tuple(spus[:2]), tuple(spus[2:])) for (base, end), spus in zip(bounds, stores, strict=False)
    )


_shelves = st.builds(
    _in_order,
    st.lists(st.integers(0, 2**63 - 1), max_size=4),
    st.lists(st.lists(_ids, min_size=1, max_size=4, unique=True), min_size=3, max_size=3),
)
partitions = st.builds(
    Partition,
    _names,
    _topic_ids,
    st.integers(0, 2**31 - 1),
    st.builds(
        PartitionSpec,
        _ids,
        st.lists(_ids, min_size=1, max_size=4, unique=True).map(tuple),
        st.sampled_from(((), ((SpuId(1), SpuId(2)),), ((SpuId(1),), (SpuId(2), SpuId(3))))),
        st.integers(0, 2**63 - 1),
        _shelves,
    ),
    st.builds(
        PartitionStatus,
        st.sampled_from(PartitionResolution),
        _ids | st.just(SpuId(-1)),
        st.builds(Epoch, st.integers(-1, 2**31 - 1)),
        _texts,
        st.dictionaries(_ids, _texts, max_size=3),
        st.integers(0, 2**31 - 1),
        _texts,
    ),
)
deleted_topics = st.builds(DeletedTopic, topics, st.integers(0, 2**63 - 1))
config_overrides = st.builds(ConfigOverrides, st.just("") | _ids.map(str), _configs)
group_configs = st.builds(GroupConfigs, _words, _configs)
cluster_identities = st.builds(ClusterIdentity, _words)
producer_id_blocks = st.builds(ProducerIdBlock, st.integers(0, 2**63 - 1))
archive_heads = st.builds(ArchiveHead, _words, _texts)
stream_attributes = st.builds(StreamAttribute, _names, _words, _texts)
triggers = st.builds(
    Trigger,
    st.from_regex(r"[a-zA-Z0-9_-][a-zA-Z0-9._-]{0,12}", fullmatch=True),
    st.builds(
        TriggerSpec,
        _names,
        _words,
        st.builds(FunctionSnapshot, _texts, _texts, st.none() | _names, st.none() | _texts, st.none() | _texts),
        st.dictionaries(_names, st.none() | _texts | st.integers(0, 9) | st.lists(_texts, max_size=2), max_size=2),
        st.integers(1, 100),
        st.none() | st.integers(1, 100),
        st.booleans(),
        st.integers(1, 2**31 - 1),
        st.none() | st.builds(Address, st.from_regex(r"[a-z0-9-]{1,9}", fullmatch=True), _ports),
    ),
    st.builds(
        TriggerStatus, st.sampled_from(TriggerResolution), _texts, st.lists(st.integers(1, 99), max_size=3).map(tuple)
    ),
)

people_write = st.one_of(spus, spu_groups, topics, partitions, deleted_topics, triggers)
objects = people_write | st.one_of(
    config_overrides,
    group_configs,
    cluster_identities,
    producer_id_blocks,
    stream_attributes,
    archive_heads,
    st.sampled_from(RECORDS).map(SecurityEntry),
)
