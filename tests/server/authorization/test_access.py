"""What one client may do: remembered decisions, and sentences about refusals."""

import gc
import tracemalloc
from collections.abc import Callable

import pytest
from authorized_spu import rule

from tailrace.cluster.cluster import Cluster
from tailrace.security.acls.acl_codes import Operation as Op
from tailrace.security.acls.acl_codes import ResourceType as Res
from tailrace.security.acls.authorizer import Authorizer
from tailrace.security.identity.principal import ANONYMOUS, SERVER, Principal
from tailrace.security.records.security_records import ACL, key_of
from tailrace.server.authorization.access import Access
from tailrace.server.authorization.authorization_row import Check

READ = rule(Res.TOPIC, Op.READ)


def _access(cluster: Cluster, principal: Principal = ANONYMOUS) -> Access:
    return Access(Authorizer(cluster.security, ["User:root"]), cluster, lambda: True, principal, "192.0.2.1")


def test_a_decision_is_remembered_until_the_rules_change() -> None:
    cluster = Cluster()
    access = _access(cluster)
    assert not access.may(Op.READ, Res.TOPIC, "topic")
    cluster.put_security(READ)
    assert access.may(Op.READ, Res.TOPIC, "topic")
    cluster.remove_security(ACL, key_of(READ))
    assert not access.may(Op.READ, Res.TOPIC, "topic")


def test_servers_and_super_users_are_unlimited() -> None:
    cluster = Cluster()
    assert not _access(cluster).is_unlimited
    assert _access(cluster, Principal("User", "root")).is_unlimited
    assert _access(cluster, Principal(SERVER, "spu-1")).is_unlimited


def test_a_check_may_be_passed_with_the_cluster_or_with_some_resource() -> None:
    cluster = Cluster()
    access = _access(cluster)
    check = Check(Op.IDEMPOTENT_WRITE, Res.CLUSTER, with_some=(Op.WRITE, Res.TOPIC))
    assert not access.allows(check, "kafka-cluster")
    cluster.put_security(rule(Res.TOPIC, Op.WRITE))
    assert access.allows(check, "kafka-cluster")
    create = Check(Op.CREATE, Res.TOPIC, with_cluster=Op.CREATE)
    assert not access.allows(create, "new")
    cluster.put_security(rule(Res.CLUSTER, Op.CREATE))
    assert access.allows(create, "new")


def test_items_are_split_and_those_without_a_name_pass() -> None:
    cluster = Cluster()
    cluster.put_security(READ)
    split = _access(cluster).split(Check(Op.READ, Res.TOPIC), ["topic", "other", ""], lambda name: name or None)
    assert split == (["topic", ""], ["other"])


def test_a_refusal_is_a_sentence() -> None:
    access = _access(Cluster())
    assert access.refusal(Check(Op.DESCRIBE_CONFIGS, Res.TOPIC), "x") == (
        "User:ANONYMOUS may not describe configs of topic x"
    )
    assert access.refusal(Check(Op.ALTER, Res.CLUSTER), "kafka-cluster") == "User:ANONYMOUS may not alter the cluster"


def _kept_bytes(ask: Callable[[], None]) -> int:
    """Returns how many bytes are kept of what was allocated meanwhile."""
    tracemalloc.start()
    try:
        ask()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("is_allowed", [True, False])
def test_long_names_that_a_client_invents_are_not_remembered(is_allowed: bool) -> None:
    cluster = Cluster()
    if is_allowed:
        cluster.put_security(rule(Res.TOPIC, Op.ALL, "*"))
    access = _access(cluster)

    def ask() -> None:
        for number in range(300):
            name = f"{number}{'x' * 32_000}"
            assert access.may(Op.WRITE, Res.TOPIC, name) is is_allowed
            access.remember(access.writable, name)

    assert _kept_bytes(ask) < 1_000_000


def test_a_connection_does_not_remember_refusals() -> None:
    access = _access(Cluster())
    access.may(Op.READ, Res.TOPIC, "warms up what is loaded once")
    cache = access._authorizer._cache

    def ask() -> None:
        for number in range(5_000):
            access.may(Op.READ, Res.TOPIC, f"topic-{number}")
        cache.clear()

    assert _kept_bytes(ask) < 100_000
