"""Requests about rules, users, quotas and permitted operations, right and wrong ones: what a broker answers."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from kafka.protocol.admin import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from kafka.protocol.metadata import MetadataRequest, MetadataResponse
from raw import Connection, connect
from raw_messages import ask, log_in
from security.guarded import PASSWORD, USER, GuardedBroker
from topics import topic_creator
from waiting import wait_until

NONE, CLUSTER_AUTHORIZATION_FAILED, UNSUPPORTED_SASL_MECHANISM, UNSUPPORTED_VERSION, INVALID_REQUEST = 0, 31, 33, 35, 42
RESOURCE_NOT_FOUND, DUPLICATE_RESOURCE, UNACCEPTABLE_CREDENTIAL = 91, 92, 93
UNKNOWN_SERVER_ERROR, MISMATCHED_ENDPOINT_TYPE, UNSUPPORTED_ENDPOINT_TYPE = -1, 114, 115
ANY, TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, TOKEN, PRINCIPAL = 1, 2, 3, 4, 5, 6, 7
MATCH, LITERAL, PREFIXED = 2, 3, 4
ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION = 2, 3, 4, 5, 6, 7, 8, 9
DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE, CREATE_TOKENS = 10, 11, 12, 13
DENY, ALLOW = 2, 3
RAW = "User:raw"
"""The user of all rules of this module, except for those about permitted operations."""

Rule = tuple[int, str, int, str, str, int, int]
"""Type and name of the resource, pattern, principal, host, operation, permission."""


@pytest.fixture(scope="module")
def admin(guarded: GuardedBroker) -> Iterator[Connection]:
    """Yields a connection of the super user."""
    with connect(guarded.open_address) as connection:
        yield connection


@pytest.fixture(scope="module")
def alice(guarded: GuardedBroker) -> Iterator[Connection]:
    """Yields a connection of a user without permissions."""
    with connect(guarded.login_address) as connection:
        log_in(connection, USER, PASSWORD)
        yield connection


# rules


def create(connection: Connection, *rules: Rule) -> list[int]:
    """Creates rules and returns the errors."""
    creations = [
        CreateAclsRequest.AclCreation(
            resource_type=kind,
            resource_name=name,
            resource_pattern_type=pattern,
            principal=principal,
            host=host,
            operation=operation,
            permission_type=permission,
        )
        for kind, name, pattern, principal, host, operation, permission in rules
    ]
    response = ask(connection, CreateAclsRequest(creations=creations), CreateAclsResponse, 3)
    return [each.error_code for each in response.results]


Filter = tuple[int, str | None, int]
"""Type and name of the resource, pattern."""


def described(
    connection: Connection,
    where: Filter = (ANY, None, ANY),
    principal: str | None = RAW,
    host: str | None = None,
    operation: int = ANY,
    permission: int = ANY,
) -> set[Rule] | int:
    """Returns the rules that a filter selects, or the error."""
    kind, name, pattern = where
    request = DescribeAclsRequest(
        resource_type_filter=kind,
        resource_name_filter=name,
        pattern_type_filter=pattern,
        principal_filter=principal,
        host_filter=host,
        operation=operation,
        permission_type=permission,
    )
    response = ask(connection, request, DescribeAclsResponse, 3)
    if response.error_code:
        return int(response.error_code)
    return {
        (
            each.resource_type,
            each.resource_name,
            each.pattern_type,
            rule.principal,
            rule.host,
            rule.operation,
            rule.permission_type,
        )
        for each in response.resources
        for rule in each.acls
    }


def delete(connection: Connection, *filters: Filter, principal: str | None = RAW) -> list[set[Rule] | int]:
    """Deletes what filters select; returns the deleted rules or the error of each filter."""
    asked = [
        DeleteAclsRequest.DeleteAclsFilter(
            resource_type_filter=kind,
            resource_name_filter=name,
            pattern_type_filter=pattern,
            principal_filter=principal,
            host_filter=None,
            operation=ANY,
            permission_type=ANY,
        )
        for kind, name, pattern in filters
    ]
    response = ask(connection, DeleteAclsRequest(filters=asked), DeleteAclsResponse, 3)
    return [
        each.error_code
        or {
            (
                rule.resource_type,
                rule.resource_name,
                rule.pattern_type,
                rule.principal,
                rule.host,
                rule.operation,
                rule.permission_type,
            )
            for rule in each.matching_acls
        }
        for each in response.filter_results
    ]


ORDERS: Rule = (TOPIC, "raw-orders", LITERAL, RAW, "*", READ, ALLOW)
RAW_TOPICS: Rule = (TOPIC, "raw-", PREFIXED, RAW, "*", WRITE, ALLOW)
ALL_TOPICS: Rule = (TOPIC, "*", LITERAL, RAW, "*", READ, DENY)
A_GROUP: Rule = (GROUP, "raw-orders", LITERAL, RAW, "10.0.0.1", ALL, ALLOW)
OTHERS: tuple[Rule, ...] = (
    (CLUSTER, "kafka-cluster", LITERAL, RAW, "*", CLUSTER_ACTION, ALLOW),
    (TRANSACTIONAL_ID, "raw-", PREFIXED, RAW, "*", WRITE, ALLOW),
    (TOKEN, "raw-id", LITERAL, RAW, "*", DESCRIBE, ALLOW),
    (PRINCIPAL, "User:carol", LITERAL, RAW, "*", CREATE_TOKENS, ALLOW),
)
RULES = {ORDERS, RAW_TOPICS, ALL_TOPICS, A_GROUP, *OTHERS}


@pytest.fixture
def rules(admin: Connection) -> Iterator[None]:
    """Creates one rule of each kind, and deletes all at the end."""
    assert create(admin, *RULES, ORDERS) == [NONE] * (len(RULES) + 1)
    wait_until(lambda: described(admin) == RULES)
    yield
    delete(admin, (ANY, None, ANY))
    wait_until(lambda: described(admin) == set())


@pytest.mark.usefixtures("rules")
def test_filters_select_rules(admin: Connection) -> None:
    """StandardAuthorizerTest: the filters of DescribeAcls, with ANY and MATCH"""
    of_topics = {ORDERS, RAW_TOPICS, ALL_TOPICS}
    for where, selected in (
        ((TOPIC, None, ANY), of_topics),
        ((TOPIC, None, MATCH), of_topics),
        ((TOPIC, None, LITERAL), {ORDERS, ALL_TOPICS}),
        ((TOPIC, None, PREFIXED), {RAW_TOPICS}),
        ((TOPIC, "raw-orders", LITERAL), {ORDERS}),
        ((TOPIC, "raw-orders", ANY), {ORDERS}),
        ((TOPIC, "raw-orders", MATCH), of_topics),
        ((TOPIC, "raw-orders", PREFIXED), set()),
        ((TOPIC, "raw-", PREFIXED), {RAW_TOPICS}),
        ((TOPIC, "raw-", LITERAL), set()),
        ((TOPIC, "raw-", MATCH), {RAW_TOPICS, ALL_TOPICS}),
        ((TOPIC, "raw", MATCH), {ALL_TOPICS}),
        ((TOPIC, "*", LITERAL), {ALL_TOPICS}),
        ((TOPIC, "*", MATCH), {ALL_TOPICS}),
        ((ANY, "raw-orders", MATCH), of_topics | {A_GROUP, OTHERS[1]}),
        ((ANY, "raw-orders", ANY), {ORDERS, A_GROUP}),
        ((CLUSTER, "kafka-cluster", MATCH), {OTHERS[0]}),
        ((CLUSTER, "other", ANY), set()),
        ((TOPIC, "", ANY), set()),
    ):
        assert described(admin, where) == selected, where
    assert described(admin, principal="User:*") == described(admin, principal="raw") == set()
    assert described(admin, host="*") == RULES - {A_GROUP}
    assert described(admin, host="10.0.0.1") == {A_GROUP}
    assert described(admin, host="10.0.0.2") == set()
    assert described(admin, operation=READ) == {ORDERS, ALL_TOPICS}
    assert described(admin, operation=ALL) == {A_GROUP}
    assert described(admin, permission=DENY) == {ALL_TOPICS}
    every = described(admin, principal=None)
    assert isinstance(every, set) and every >= RULES


@pytest.mark.usefixtures("rules")
def test_deleted_rules_are_listed_for_each_filter(admin: Connection) -> None:
    nothing, overlapping, all_topics = delete(
        admin, (TOPIC, "raw-nothing", LITERAL), (TOPIC, "raw-", MATCH), (TOPIC, None, ANY)
    )
    assert nothing == set()
    assert overlapping == {RAW_TOPICS, ALL_TOPICS}
    assert all_topics == {ORDERS, RAW_TOPICS, ALL_TOPICS}
    wait_until(lambda: described(admin) == RULES - {ORDERS, RAW_TOPICS, ALL_TOPICS})
    assert delete(admin) == []


def test_wrong_rules_are_refused_one_by_one(admin: Connection) -> None:
    name = "raw-checked"
    right: Rule = (TOPIC, name, LITERAL, RAW, "*", READ, ALLOW)
    nameless: Rule = (TOPIC, "", LITERAL, RAW, "*", READ, ALLOW)
    assert create(admin, right, nameless, right) == [NONE, INVALID_REQUEST, NONE]
    wrong: tuple[Rule, ...] = (
        (TOPIC, "", PREFIXED, RAW, "*", READ, ALLOW),
        (CLUSTER, "other", LITERAL, RAW, "*", READ, ALLOW),
        (CLUSTER, "*", LITERAL, RAW, "*", READ, ALLOW),
        (99, name, LITERAL, RAW, "*", READ, ALLOW),
        (TOPIC, name, 9, RAW, "*", READ, ALLOW),
        (TOPIC, name, LITERAL, "raw", "*", READ, ALLOW),
        (TOPIC, name, LITERAL, "", "*", READ, ALLOW),
        (TOPIC, name, LITERAL, RAW, "*", 99, ALLOW),
        (TOPIC, name, LITERAL, RAW, "*", READ, 9),
    )
    assert create(admin, *wrong) == [INVALID_REQUEST] * len(wrong)
    without_meaning: tuple[Rule, ...] = (
        (ANY, name, LITERAL, RAW, "*", READ, ALLOW),
        (TOPIC, name, ANY, RAW, "*", READ, ALLOW),
        (TOPIC, name, MATCH, RAW, "*", READ, ALLOW),
        (TOPIC, name, LITERAL, RAW, "*", 1, ALLOW),
        (TOPIC, name, LITERAL, RAW, "*", READ, 1),
    )
    # Apache Kafka has no error for these.
    for each in without_meaning:
        assert create(admin, each)[0] in (INVALID_REQUEST, UNKNOWN_SERVER_ERROR), each
    wait_until(lambda: described(admin) == {right})
    assert delete(admin, (ANY, None, ANY)) == [{right}]


@pytest.mark.parametrize(
    "rule",
    [
        (TOPIC, "raw name that no topic has!", LITERAL, RAW, "*", READ, ALLOW),
        (TOPIC, "raw-" + "x" * 300, LITERAL, RAW, "*", READ, ALLOW),
        (GROUP, "raw/é", LITERAL, RAW, "*", READ, ALLOW),
        (TOPIC, "raw-host", LITERAL, RAW, "::1", READ, ALLOW),
        (TOPIC, "raw-host", LITERAL, RAW, "10.0.0.0/8", READ, ALLOW),
        (PRINCIPAL, "User:raw", PREFIXED, RAW, "*", CREATE_TOKENS, ALLOW),
    ],
)
def test_unusual_rules_are_stored(admin: Connection, rule: Rule) -> None:
    assert create(admin, rule) == [NONE]
    wait_until(lambda: described(admin) == {rule})
    assert delete(admin, (ANY, None, ANY)) == [{rule}]
    wait_until(lambda: described(admin) == set())


def test_rules_are_a_matter_of_the_cluster(alice: Connection) -> None:
    assert described(alice) == CLUSTER_AUTHORIZATION_FAILED
    assert create(alice, ORDERS, RAW_TOPICS) == [CLUSTER_AUTHORIZATION_FAILED] * 2
    assert delete(alice, (TOPIC, "raw-orders", LITERAL), (ANY, None, ANY)) == [CLUSTER_AUTHORIZATION_FAILED] * 2


# permitted operations


def operations(connection: Connection, name: str) -> tuple[set[int], set[int] | None, set[int] | None, set[int] | None]:
    """Returns the operations on the cluster, as Metadata and as DescribeCluster tell them, on a topic and on a group.

    They are None for a resource that the client may not describe.
    """
    asked = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=name)],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    metadata = ask(connection, asked, MetadataResponse, 8)
    about = DescribeClusterRequest(include_cluster_authorized_operations=True)
    cluster = ask(connection, about, DescribeClusterResponse, 1)
    groups = DescribeGroupsRequest(groups=[name], include_authorized_operations=True)
    (group,) = ask(connection, groups, DescribeGroupsResponse, 5).groups
    (topic,) = metadata.topics
    return (
        metadata.authorized_operations,
        cluster.authorized_operations,
        topic.authorized_operations,
        group.authorized_operations,
    )


OF_CLUSTER = {CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE}
OF_TOPIC = {READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS}
OF_GROUP = {READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS}


def test_permitted_operations_follow_the_rules(guarded: GuardedBroker, admin: Connection, alice: Connection) -> None:
    """DescribeAuthorizedOperationsTest; testMetadataClusterAuthorizedOperations…, testDescribeCluster…"""
    name = topic_creator(guarded.open_address, "raw-operations")()
    consumer = Consumer({"bootstrap.servers": guarded.open_address, "group.id": name})

    def has_group() -> bool:
        try:
            consumer.commit(offsets=[TopicPartition(name, 0, 0)], asynchronous=False)
        except KafkaException:
            return False
        return True

    wait_until(has_group, 30)
    consumer.close()
    assert operations(admin, name) == (OF_CLUSTER, OF_CLUSTER, OF_TOPIC, OF_GROUP)
    assert operations(alice, name) == (set(), set(), None, None)

    def rules_of(topic: int, group: int, cluster: int, permission: int = ALLOW) -> list[Rule]:
        who = f"User:{USER}"
        return [
            (TOPIC, name, LITERAL, who, "*", topic, permission),
            (GROUP, "raw-", PREFIXED, who, "*", group, permission),
            (CLUSTER, "kafka-cluster", LITERAL, "User:*", "*", cluster, permission),
        ]

    only = {DESCRIBE}
    of_cluster = {DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS}
    try:
        for rules, expected in (
            (rules_of(DESCRIBE, DESCRIBE, DESCRIBE), (only, only, only, only)),
            (rules_of(READ, DELETE, ALTER_CONFIGS), (of_cluster, of_cluster, {DESCRIBE, READ}, {DESCRIBE, DELETE})),
            (rules_of(ALL, ALL, ALL), (OF_CLUSTER, OF_CLUSTER, OF_TOPIC, OF_GROUP)),
            (
                rules_of(READ, DELETE, IDEMPOTENT_WRITE, DENY),
                (OF_CLUSTER - {IDEMPOTENT_WRITE},) * 2 + (OF_TOPIC - {READ}, OF_GROUP - {DELETE}),
            ),
        ):
            assert create(admin, *rules) == [NONE] * len(rules)
            wait_until(lambda wanted=expected: operations(alice, name) == wanted, what=str(expected))  # type: ignore[misc]
    finally:
        delete(admin, (TOPIC, name, LITERAL), (GROUP, "raw-", PREFIXED), principal=f"User:{USER}")
        delete(admin, (CLUSTER, "kafka-cluster", LITERAL), principal="User:*")
    wait_until(lambda: operations(alice, name) == (set(), set(), None, None))


def test_the_endpoint_of_a_broker_is_no_endpoint_of_a_controller(admin: Connection) -> None:
    for endpoint, code in ((1, NONE), (2, MISMATCHED_ENDPOINT_TYPE), (9, UNSUPPORTED_ENDPOINT_TYPE)):
        request = DescribeClusterRequest(endpoint_type=endpoint)
        assert ask(admin, request, DescribeClusterResponse, 1).error_code == code


# users


def users(connection: Connection, *names: str) -> dict[str, list[tuple[int, int]] | int] | int:
    """Returns mechanism and iterations of users or their errors, or the error of the request."""
    named = [DescribeUserScramCredentialsRequest.UserName(name=name) for name in names]
    request = DescribeUserScramCredentialsRequest(users=named)
    response = ask(connection, request, DescribeUserScramCredentialsResponse, 0)
    if response.error_code:
        return int(response.error_code)
    return {
        each.user: each.error_code or sorted((info.mechanism, info.iterations) for info in each.credential_infos)
        for each in response.results
    }


def alter(
    connection: Connection,
    *upsertions: tuple[str, int, int],
    deletions: tuple[tuple[str, int], ...] = (),
    salt: bytes = b"salt" * 4,
) -> dict[str, int]:
    """Deletes credentials and puts others; returns the error of each user."""
    kind = AlterUserScramCredentialsRequest
    request = kind(
        deletions=[kind.ScramCredentialDeletion(name=name, mechanism=mechanism) for name, mechanism in deletions],
        upsertions=[
            kind.ScramCredentialUpsertion(
                name=name, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=b"p" * 32
            )
            for name, mechanism, iterations in upsertions
        ],
    )
    response = ask(connection, request, AlterUserScramCredentialsResponse, 0)
    return {each.user: each.error_code for each in response.results}


def test_users_that_are_asked_for(admin: Connection, alice: Connection) -> None:
    """DescribeUserScramCredentialsRequestTest: all users, unknown users, a user twice, without permission"""
    found = [(1, 4096), (2, 4096)]
    assert users(admin, USER) == {USER: found}
    assert users(admin, USER, "raw-unknown", "") == {
        USER: found,
        "raw-unknown": RESOURCE_NOT_FOUND,
        "": RESOURCE_NOT_FOUND,
    }
    assert users(admin, USER, USER, "raw-unknown") == {USER: DUPLICATE_RESOURCE, "raw-unknown": RESOURCE_NOT_FOUND}
    every = users(admin)
    assert isinstance(every, dict) and every[USER] == found
    assert users(alice, USER) == CLUSTER_AUTHORIZATION_FAILED


def test_users_are_changed_or_refused_one_by_one(admin: Connection, alice: Connection) -> None:
    """AlterUserScramCredentialsRequestTest: iterations, mechanisms, missing users, users twice, without permission"""
    one, two, odd = "raw-one", "raw-two", "raw b,c=dé"
    sha_256, sha_512 = 1, 2
    assert alter(admin, (one, sha_256, 4095)) == {one: UNACCEPTABLE_CREDENTIAL}
    assert alter(admin, (one, sha_256, 16_385)) == {one: UNACCEPTABLE_CREDENTIAL}
    assert alter(admin, (one, sha_256, -1)) == {one: UNACCEPTABLE_CREDENTIAL}
    assert alter(admin, ("", sha_256, 4096)) == {"": UNACCEPTABLE_CREDENTIAL}
    for unknown in (0, 3):
        assert alter(admin, (one, unknown, 4096)) == {one: UNSUPPORTED_SASL_MECHANISM}
        assert alter(admin, deletions=((one, unknown),)) == {one: UNSUPPORTED_SASL_MECHANISM}
    assert alter(admin, (one, sha_256, 4096), (one, sha_512, 4096)) == {one: DUPLICATE_RESOURCE}
    assert alter(admin, deletions=((one, sha_256),)) == {one: RESOURCE_NOT_FOUND}
    assert alter(admin) == {}
    assert alter(admin, (one, sha_256, 4096), (odd, sha_512, 16_384)) == {one: NONE, odd: NONE}
    wait_until(lambda: users(admin, one, odd) == {one: [(1, 4096)], odd: [(2, 16_384)]})
    assert alter(admin, (one, sha_512, 8192)) == {one: NONE}
    wait_until(lambda: users(admin, one) == {one: [(1, 4096), (2, 8192)]})
    mixed = alter(admin, (odd, sha_512, 1), (two, sha_512, 4096), deletions=((one, sha_256), ("raw-none", sha_256)))
    assert mixed == {one: NONE, "raw-none": RESOURCE_NOT_FOUND, odd: UNACCEPTABLE_CREDENTIAL, two: NONE}
    wait_until(lambda: users(admin, one, two) == {one: [(2, 8192)], two: [(2, 4096)]})
    assert alter(admin, (one, sha_512, 4096), deletions=((one, sha_512),)) == {one: DUPLICATE_RESOURCE}
    gone = ((one, sha_512), (two, sha_512), (odd, sha_512))
    assert alter(admin, deletions=gone) == {one: NONE, two: NONE, odd: NONE}
    wait_until(lambda: users(admin, one, two, odd) == dict.fromkeys((one, two, odd), RESOURCE_NOT_FOUND))
    assert alter(alice, (one, sha_256, 4096)) == {one: CLUSTER_AUTHORIZATION_FAILED}


# quotas

Entity = tuple[tuple[str, str | None], ...]
PRODUCER_RATE = {"producer_byte_rate": 1000.0}
CONNECTIONS = {"connection_creation_rate": 5.0}


def set_quota(
    connection: Connection,
    entity: Entity,
    limits: dict[str, float | None] | dict[str, float],
    *,
    checks_only: bool = False,
) -> int:
    """Changes the quotas of an entity, where None removes one, and returns the error."""
    kind = AlterClientQuotasRequest.EntryData
    entry = kind(
        entity=[kind.EntityData(entity_type=part, entity_name=name) for part, name in entity],
        ops=[kind.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in limits.items()],
    )
    request = AlterClientQuotasRequest(entries=[entry], validate_only=checks_only)
    (row,) = ask(connection, request, AlterClientQuotasResponse, 1).entries
    return int(row.error_code)


def quotas(connection: Connection, *parts: tuple[str, int, str | None], strict: bool = False) -> dict[Any, Any] | int:
    """Returns the quotas that filters select, or the error."""
    kind = DescribeClientQuotasRequest
    components = [kind.ComponentData(entity_type=part, match_type=match, match=name) for part, match, name in parts]
    response = ask(connection, kind(components=components, strict=strict), DescribeClientQuotasResponse, 1)
    if response.error_code:
        return int(response.error_code)
    return {
        tuple(sorted((part.entity_type, part.entity_name) for part in each.entity)): {
            value.key: value.value for value in each.values
        }
        for each in response.entries
    }


USER_ENTITY: Entity = (("user", "raw-user"),)


@pytest.mark.parametrize(
    ("entity", "limits"),
    [
        ((), PRODUCER_RATE),
        ((("unknown", "raw"),), PRODUCER_RATE),
        ((("user", "raw-user"), ("unknown", "raw")), PRODUCER_RATE),
        ((("user", ""),), PRODUCER_RATE),
        ((("client-id", ""),), PRODUCER_RATE),
        ((("user", "raw-user"), ("ip", "192.0.2.1")), PRODUCER_RATE),
        ((("ip", "192.0.2.1"),), PRODUCER_RATE),
        ((("ip", "no address"),), CONNECTIONS),
        ((("ip", "192.0.2.1"),), {"connection_creation_rate": 5.5}),
        (USER_ENTITY, CONNECTIONS),
        (USER_ENTITY, {"unknown": 1.0}),
        (USER_ENTITY, {"SCRAM-SHA-256": 1.0}),
        (USER_ENTITY, {"producer_byte_rate": -1.0}),
        (USER_ENTITY, {"producer_byte_rate": float("inf")}),
        (USER_ENTITY, {"producer_byte_rate": 1.5}),
        (USER_ENTITY, {"producer_byte_rate": 1e30}),
    ],
)
def test_a_wrong_quota_is_refused(admin: Connection, entity: Entity, limits: dict[str, float]) -> None:
    """ClientQuotasRequestTest: testAlterClientQuotasBad…"""
    assert set_quota(admin, entity, limits) == INVALID_REQUEST
    assert set_quota(admin, entity, limits, checks_only=True) == INVALID_REQUEST


def test_quotas_are_set_found_and_removed(admin: Connection, alice: Connection) -> None:
    both: Entity = (("client-id", "raw-client"), ("user", "raw-user"))
    assert set_quota(admin, USER_ENTITY, PRODUCER_RATE, checks_only=True) == NONE
    assert set_quota(admin, USER_ENTITY, {"request_percentage": 0.5, "controller_mutation_rate": 0.5}) == NONE
    assert set_quota(admin, both, PRODUCER_RATE) == NONE
    own = {USER_ENTITY: {"request_percentage": 0.5, "controller_mutation_rate": 0.5}}
    named = ("user", 0, "raw-user")
    wait_until(lambda: quotas(admin, named) == own | {both: PRODUCER_RATE})
    assert quotas(admin, named, strict=True) == own
    assert quotas(admin, named, ("client-id", 2, None)) == {both: PRODUCER_RATE}
    assert quotas(admin, named, ("client-id", 1, None)) == {}
    for wrong in (("user", 3, None), ("user", 0, None), ("user", 1, "raw"), ("user", 2, "raw"), ("", 0, "raw")):
        assert quotas(admin, wrong) == INVALID_REQUEST, wrong
    assert quotas(admin, named, named) == INVALID_REQUEST
    assert quotas(admin, named, ("ip", 0, "192.0.2.1")) == INVALID_REQUEST
    assert quotas(admin, ("unknown", 0, "raw")) == UNSUPPORTED_VERSION
    assert set_quota(admin, USER_ENTITY, {"producer_byte_rate": None, "unknown": None}) == NONE
    assert set_quota(admin, USER_ENTITY, dict.fromkeys(own[USER_ENTITY])) == NONE
    assert set_quota(admin, both, {"producer_byte_rate": None}) == NONE
    wait_until(lambda: quotas(admin, named) == {})
    assert quotas(alice) == CLUSTER_AUTHORIZATION_FAILED
    assert set_quota(alice, USER_ENTITY, PRODUCER_RATE) == CLUSTER_AUTHORIZATION_FAILED
