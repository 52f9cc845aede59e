"""Every module has a test file of its name, so that its expectations are easy to find."""

import pytest
from product import PACKAGES, ROOT

GENERATED = ("protocol/messages/", "protocol/internal/", "protocol/group_records/", "protocol/transaction_records/")

# Modules without a test file of their own, and why that is right.
NEED_NONE = {
    "protocol/ids.py": "names for numbers; nothing in it can be wrong",
    "broker/handlers/administration/forwarding_host.py": "an interface",
    "broker/handlers/groups/group_host.py": "interfaces",
    "broker/handlers/records/record_host.py": "interfaces",
    "broker/handlers/stores/store_host.py": "interfaces",
    "broker/handlers/transactions/transaction_host.py": "interfaces",
    "broker/coordination/moment.py": "a tuple without behaviour",
    "broker/coordination/coordinator_kind.py": "interfaces",
    "broker/coordination/coordination_context.py": "a struct without behaviour",
    "broker/groups/assignment/assignor.py": "an interface",
    "broker/groups/common/group.py": "an interface",
    "broker/groups/common/group_output.py": "a struct without behaviour",
    "broker/groups/common/group_settings.py": "a struct without behaviour",
    "broker/transactions/common/client_of_transactions.py": "a tuple without behaviour",
    "broker/transactions/common/transaction_counts.py": "plain numbers without behaviour",
    "broker/transactions/common/transaction_settings.py": "a struct without behaviour",
    "broker/spu_counters.py": "plain numbers without behaviour",
    "broker/controller_link/held_specs.py": "structs without behaviour",
    "broker/peers/peer_gauges.py": "structs without behaviour",
    "broker/roles/role_context.py": "a struct without behaviour",
    "broker/replication/messages.py": "structs without behaviour",
    "broker/replication/ready.py": "structs without behaviour",
    "cli/records/formats/consumed_record.py": "a tuple without behaviour",
    "cluster/specs.py": "structs without behaviour",
    "controller/state/actions.py": "structs without behaviour",
    "controller/state/events.py": "structs without behaviour",
    "controller/objects/objects.py": "structs without behaviour",
    "storage/log/log_parts.py": "an interface",
    "server/administration.py": "an interface",
    "trigger/pool/workers.py": "an interface",
    "trigger/work.py": "structs without behaviour",
    "trigger/shards/line_effects.py": "structs without behaviour",
    "trigger/shards/record_order.py": "an interface",
    "trigger/config/trigger_config.py": "structs without behaviour",
    "testing/broker_error.py": "an error without behaviour",
    "server/host.py": "an interface",
    "server/request_routes.py": "interfaces, and tuples without behaviour",
}


def _modules() -> list[str]:
    return sorted(
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if path.name != "__init__.py" and not path.relative_to(ROOT).as_posix().startswith(GENERATED)
    )


def _test_of(module: str) -> str:
    folder, _, name = module.rpartition("/")
    return f"tests/{folder}/test_{name}"


@pytest.mark.parametrize("module", _modules())
def test_every_module_has_its_test_file(module: str) -> None:
    has_one = (ROOT / _test_of(module)).is_file()
    if module in NEED_NONE:
        assert not has_one, f"{module} has a test file: take it off the list"
    else:
        assert has_one, f"write {_test_of(module)}, or say here why it needs none"


def test_exceptions_are_modules() -> None:
    assert NEED_NONE.keys() <= set(_modules())
