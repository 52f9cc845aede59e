"""`tailrace transaction …`: lists, describes, explains and aborts transactions.

The commands ask the SPUs that coordinate transactions, and the leaders of partitions. They speak Kafka's protocol, so
with --bootstrap they work with Apache Kafka as well, which does not tell the clients of transactions.
"""

import argparse
import re

from tailrace.cli.options.sc_options import Command, show_documents
from tailrace.cli.output.times import duration
from tailrace.client.server_connection import RefusedError
from tailrace.client.transaction_client import NO_FILTER, TransactionClient
from tailrace.client.transaction_facts import ONGOING, PREPARE_ABORT, PREPARE_COMMIT, STATES, Transaction
from tailrace.runtime.wall_clock import SystemClock, WallClock

from . import transaction_abort, transaction_explain
from .transaction_options import TransactionAsk, transaction_command
from .transaction_outlook import outlook
from .transaction_tables import description, listed_document, transaction_document, transaction_table

_RUNNING = (ONGOING, PREPARE_COMMIT, PREPARE_ABORT)

# list


def _list_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--state",
        metavar="STATE",
        type=_state,
        action="append",
        default=[],
        help="List only transactional ids in this state, such as Ongoing; may be repeated.",
    )
    parser.add_argument(
        "--producer-id",
        metavar="N",
        type=_producer_id,
        action="append",
        default=[],
        help="List only the transactional id of this producer; may be repeated.",
    )
    parser.add_argument(
        "--longer-than",
        metavar="DURATION",
        type=duration,
        help="List only transactions that have run for longer, such as 90s or 1h.",
    )
    parser.add_argument(
        "--pattern", metavar="REGEX", help="List only transactional ids that match this regular expression as a whole."
    )


def _state(text: str) -> str:
    found = next((each for each in STATES if each.lower() == text.lower()), None)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text} is not one of {', '.join(STATES)}")
    return found


def _producer_id(text: str) -> int:
    if re.fullmatch(r"[0-9]{1,18}", text) is None:
        raise argparse.ArgumentTypeError(f"{text} is not the id of a producer")
    return int(text)


async def _list(client: TransactionClient, arguments: argparse.Namespace) -> None:
    states = arguments.state
    if arguments.longer_than is not None and not states:
        states = _RUNNING  # an id without a transaction has run for no time
    longer_than_ms = NO_FILTER if arguments.longer_than is None else arguments.longer_than
    listed = await client.listed(states, arguments.producer_id, longer_than_ms, arguments.pattern)
    described = await client.describe([each.id for each in listed if each.state in _RUNNING], with_clients=False)
    running = {each: found for each, found in described.items() if isinstance(found, Transaction)}
    show_documents(
        arguments,
        [listed_document(each, running.get(each.id)) for each in listed],
        lambda: transaction_table(listed, running),
    )


# describe


def _describe_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", metavar="ID", nargs="+", help="Transactional ids to describe.")


def _describing(wall_clock: WallClock) -> TransactionAsk:
    async def describe(client: TransactionClient, arguments: argparse.Namespace) -> None:
        answers = (await client.describe(arguments.ids)).values()
        found = [each for each in answers if isinstance(each, Transaction)]
        if found or arguments.output != "table":
            leaders = await client.leaders([one for each in found if each.is_ending for one in each.partitions])
            now_ms = wall_clock.now_ms()
            steps = [(each, outlook(each, leaders, now_ms)) for each in found]
            show_documents(
                arguments,
                [transaction_document(each, step) for each, step in steps],
                lambda: "\n\n".join(description(each, step, now_ms) for each, step in steps),
            )
        if faults := [str(each) for each in answers if isinstance(each, RefusedError)]:
            raise RefusedError("; ".join(faults))

    return describe


def commands(wall_clock: WallClock) -> dict[str, Command]:
    """Makes the commands of the family; `wall_clock` tells the age of transactions."""
    explaining = transaction_explain.explaining(wall_clock)
    return {
        "list": transaction_command("list", _list_options, _list, is_watchable=True),
        "describe": transaction_command("describe", _describe_options, _describing(wall_clock), is_watchable=True),
        "explain": transaction_command("explain", transaction_explain.options, explaining, is_watchable=True),
        "abort": transaction_command("abort", transaction_abort.options, transaction_abort.abort),
    }


COMMANDS = commands(SystemClock())
