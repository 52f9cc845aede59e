"""The table of permissions: no API lacks a row, and each row has a guard that makes its checks."""

import importlib

import pytest

from tailrace.protocol.apis import API_TABLE, ApiKey
from tailrace.protocol.internal_apis import (
    PEER_APIS,
    SC_OBJECT_APIS,
    SC_PRIVATE_APIS,
    SPU_OBJECT_APIS,
    SPU_PRIVATE_APIS,
)
from tailrace.security.acls.acl_codes import OPERATIONS
from tailrace.server.authorization.authorization_table import TABLE

OPEN = {
    ApiKey.API_VERSIONS,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
}
"""The APIs of clients that need no permission, because they decide themselves or tell nothing."""
FOR_CLIENTS = {**API_TABLE, **SC_OBJECT_APIS, **SPU_OBJECT_APIS}
BETWEEN_SERVERS = {**SC_PRIVATE_APIS, **SPU_PRIVATE_APIS, **PEER_APIS}


def test_every_api_that_a_server_serves_has_a_row() -> None:
    assert {*FOR_CLIENTS, *BETWEEN_SERVERS} <= set(TABLE)


@pytest.mark.parametrize("key", sorted(FOR_CLIENTS))
def test_every_api_of_clients_needs_a_permission_or_is_known_to_need_none(key: int) -> None:
    assert bool(TABLE[key].guard) == bool(TABLE[key].checks) == (key not in OPEN)


def test_apis_between_servers_are_on_private_ports_only() -> None:
    for key in BETWEEN_SERVERS:
        assert TABLE[key].note == "only servers of the cluster, on private ports"
        assert key not in FOR_CLIENTS


def test_every_guard_exists() -> None:
    for row in TABLE.values():
        if row.guard:
            module, _, function = row.guard.partition(":")
            assert callable(getattr(importlib.import_module(f"tailrace.server.authorization.{module}"), function))


def test_every_check_is_of_an_operation_that_the_resource_has() -> None:
    for row in TABLE.values():
        for check in row.checks:
            assert check.operation in OPERATIONS[check.resource] or check.with_cluster is not None, row
