"""The refusals are those that Kafka's ClientQuotaControlManagerTest and ClientQuotasRequestTest check."""

import pytest

from tailrace.security.quotas.quota_rules import (
    QuotaError,
    canonical_address,
    changed_values,
    check_value,
    checked_entity,
)

ALICE = (("user", "alice"),)
ADDRESS = (("ip", "1.2.3.4"),)


def test_an_entity_has_its_parts_in_the_usual_order() -> None:
    parts = [("client-id", None), ("user", "alice")]
    assert checked_entity(parts) == (("user", "alice"), ("client-id", None))


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ([], "empty"),
        ([("user", "")], "the name of the user is empty"),
        ([("client-id", "")], "the name of the client-id is empty"),
        ([("", "name")], "cannot have quotas"),
        ([("other", "name")], "cannot have quotas"),
        ([("user", "a"), ("user", "b")], "two parts"),
        ([("user", "a"), ("ip", "1.2.3.4")], "cannot be combined"),
        ([("client-id", "a"), ("ip", "1.2.3.4")], "cannot be combined"),
        ([("ip", "not a host, because of its spaces")], "not an IP address"),
        ([("ip", "RFC2606.invalid")], "not an IP address"),
        ([("user", "x" * 1001)], "longer"),
    ],
)
def test_an_entity_that_cannot_have_quotas_is_refused(parts: list[tuple[str, str | None]], reason: str) -> None:
    with pytest.raises(QuotaError, match=reason):
        checked_entity(parts)


@pytest.mark.parametrize("name", ["user with spaces", "<default>", "a/b", "ü"])
def test_a_name_may_have_any_characters(name: str) -> None:
    assert checked_entity([("user", name)]) == (("user", name),)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("bad", 1.0, "not a quota"),
        ("connection_creation_rate", 1.0, "not a quota"),
        ("producer_byte_rate", 10_000.5, "whole number"),
        ("producer_byte_rate", 0.0, "greater than 0"),
        ("request_percentage", -1.0, "greater than 0"),
        ("request_percentage", float("nan"), "greater than 0"),
        ("request_percentage", float("inf"), "greater than 0"),
        ("consumer_byte_rate", 1e19, "at most"),
    ],
)
def test_a_wrong_limit_of_a_client_is_refused(name: str, value: float, reason: str) -> None:
    with pytest.raises(QuotaError, match=reason):
        check_value(ALICE, name, value)


def test_limits_on_time_and_changes_may_be_fractions() -> None:
    check_value(ALICE, "request_percentage", 12.34)
    check_value(ALICE, "controller_mutation_rate", 0.5)


def test_an_address_has_a_limit_on_connections_only() -> None:
    check_value(ADDRESS, "connection_creation_rate", 100.0)
    for name, value, reason in (
        ("producer_byte_rate", 1.0, "not a quota"),
        ("connection_creation_rate", 1.5, "whole"),
        ("connection_creation_rate", 2.0**31, "at most"),
    ):
        with pytest.raises(QuotaError, match=reason):
            check_value(ADDRESS, name, value)


def test_changes_set_replace_and_remove_limits() -> None:
    current = {"producer_byte_rate": 1.0, "consumer_byte_rate": 2.0}
    changes = [("producer_byte_rate", 3.0), ("consumer_byte_rate", None), ("request_percentage", None)]
    assert changed_values(ALICE, current, changes) == {"producer_byte_rate": 3.0}
    assert current == {"producer_byte_rate": 1.0, "consumer_byte_rate": 2.0}


def test_a_limit_cannot_be_changed_twice_at_once() -> None:
    with pytest.raises(QuotaError, match="twice"):
        changed_values(ALICE, {}, [("request_percentage", 1.0), ("request_percentage", None)])


def test_spellings_of_an_address_are_equal() -> None:
    assert canonical_address("::ffff:1.2.3.4") == "1.2.3.4"
    assert canonical_address("0:0:0:0:0:0:0:1") == "::1"
    assert canonical_address("localhost") is None
