import argparse

import pytest

from tailrace.cli.transactions.transaction_options import transaction_command
from tailrace.client.transaction_client import TransactionClient


async def _ask(client: TransactionClient, arguments: argparse.Namespace) -> None:
    raise AssertionError("not asked")


@pytest.mark.parametrize("is_watchable", [True, False])
def test_a_command_takes_the_options_of_brokers(is_watchable: bool) -> None:
    parser = argparse.ArgumentParser()
    transaction_command("list", lambda parser: None, _ask, is_watchable=is_watchable).configure(parser)
    options = {text for action in parser._actions for text in action.option_strings}
    assert {"--bootstrap", "--sc", "--output"} <= options
    assert ("--watch" in options) == is_watchable
