"""A server has an authorizer if its settings say so."""

from tailrace.cluster.cluster import Cluster
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.security.acls.acl_codes import Operation, ResourceType
from tailrace.security.identity.principal import Principal
from tailrace.server.authorization.authorizing import authorization_of

ROOT, ALICE = Principal("User", "root"), Principal("User", "alice")


def test_a_server_without_an_authorizer_has_no_guards() -> None:
    assert authorization_of({}, Cluster(), BrokerConfigs({})) is None


def test_the_settings_of_the_authorizer_apply() -> None:
    given = {"authorizer.class.name": "tailrace", "super.users": "User:root"}
    authorization = authorization_of(given, Cluster(), BrokerConfigs(given))
    assert authorization is not None
    authorizer = authorization.authorizer
    assert authorizer.allows(ROOT, "", Operation.READ, ResourceType.TOPIC, "t")
    assert not authorizer.allows(ALICE, "", Operation.READ, ResourceType.TOPIC, "t")
    given["allow.everyone.if.no.acl.found"] = "true"
    authorization = authorization_of(given, Cluster(), BrokerConfigs(given))
    assert authorization is not None
    assert authorization.authorizer.allows(ALICE, "", Operation.READ, ResourceType.TOPIC, "t")
