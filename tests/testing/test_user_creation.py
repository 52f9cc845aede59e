from pathlib import Path

import pytest

from tailrace.security.acls.acl_codes import Operation, PatternType, ResourceType
from tailrace.testing import BrokerError, ClientLogin
from tailrace.testing.user_creation import allow, rule, saved_login


def test_the_first_user_is_read_from_the_file_for_commands(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text('sasl.jaas.config=x.ScramLoginModule required \\\n    username="admin" password="secret";\n')
    assert saved_login(tmp_path, "here:1") == ClientLogin("here:1", "admin", "secret", str(tmp_path / "ca.pem"))
    path.write_text("security.protocol=PLAINTEXT\n")
    with pytest.raises(BrokerError, match="has no name and password"):
        saved_login(tmp_path, "here:1")
    path.unlink()
    with pytest.raises(BrokerError, match="the first user of the broker is unknown"):
        saved_login(tmp_path, "here:1")


@pytest.mark.parametrize(
    ("name", "pattern", "resource"),
    [
        ("orders", PatternType.LITERAL, "orders"),
        ("orders-*", PatternType.PREFIXED, "orders-"),
        ("*", PatternType.LITERAL, "*"),
    ],
)
def test_a_star_at_the_end_stands_for_all_names_that_begin_so(name: str, pattern: PatternType, resource: str) -> None:
    made = rule("User:alice", "describe-configs", ResourceType.TOPIC, name)
    assert (made.resource_pattern_type, made.resource_name) == (pattern, resource)
    assert (made.operation, made.host) == (Operation.DESCRIBE_CONFIGS, "*")


def test_a_rule_without_an_operation_or_with_an_unknown_one_is_refused() -> None:
    admin = ClientLogin("127.0.0.1:1", "admin", "secret", "ca.pem")
    for operations, resources in (((), {"topic": "orders"}), (("read",), {"topic": None})):
        with pytest.raises(BrokerError, match="needs an operation and a topic"):
            allow(admin, "alice", operations, **resources)
    with pytest.raises(BrokerError, match="'reed' is none of"):
        allow(admin, "alice", ["reed"], topic="orders")
