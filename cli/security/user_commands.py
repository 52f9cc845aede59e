"""`tailrace user …`: creates, lists and deletes users, and changes their passwords.

The commands speak Kafka's protocol, so with --bootstrap they work with Apache Kafka as well. Users log in with
SCRAM-SHA-256, SCRAM-SHA-512 or PLAIN.
"""

import argparse
import os
import sys
from collections.abc import Awaitable, Callable

from tailrace.cli.options.sc_options import Command, UsageError, no_options, show_documents
from tailrace.cli.options.spu_options import Options, spu_command
from tailrace.cli.output.tables import table
from tailrace.client.server_connection import RefusedError, UnreachableError
from tailrace.client.spu_client import SpuClient
from tailrace.client.user_client import UserClient, UserCredentials
from tailrace.protocol.error_codes import ErrorCode
from tailrace.runtime.chance import RandomChance
from tailrace.security.sasl.scram_keys import (
    ITERATIONS,
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    SALT_BYTES,
    SCRAM_MECHANISMS,
    salt_of,
)
from tailrace.security.sasl.text_preparation import PreparationError, check_text

from .password_input import password_options, print_generated, read_password

_CHANCE = RandomChance()
_UserAsk = Callable[[UserClient, argparse.Namespace], Awaitable[None]]

# create and password


def _iterations(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not ITERATIONS_MIN <= int(text[:9]) <= ITERATIONS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is not a number from {ITERATIONS_MIN} to {ITERATIONS_MAX}")
    return int(text)


def _mechanism_option(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument(
        "--mechanism",
        choices=SCRAM_MECHANISMS,
        action="append",
        help=f"{what}; may be repeated (default: both). PLAIN works with either.",
    )


def _create_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("user", metavar="USER", help="The name of the new user.")
    _mechanism_option(parser, "Let the user log in with this mechanism")
    _iterations_option(parser)
    password_options(parser)


def _iterations_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--iterations",
        metavar="N",
        type=_iterations,
        default=ITERATIONS,
        help=f"How much work it is to check the password, for each login and each guess (default: {ITERATIONS}).",
    )


async def _create(client: UserClient, arguments: argparse.Namespace) -> None:
    try:
        check_text(arguments.user)
    except PreparationError as error:
        raise UsageError(f"the name of the user: {error}") from None
    if await client.users([arguments.user]):
        raise RefusedError(
            f"the user {arguments.user} exists; `tailrace user password` changes the password",
            ErrorCode.DUPLICATE_RESOURCE,
        )
    mechanisms = dict.fromkeys(arguments.mechanism or SCRAM_MECHANISMS)
    await _put(client, arguments, tuple(mechanisms), is_new=True)


async def _put(
    client: UserClient, arguments: argparse.Namespace, mechanisms: tuple[str, ...], *, is_new: bool = False
) -> None:
    """Sets the password of a user for the mechanisms.

    Kafka's brokers refuse a request that names a user twice, so each mechanism takes a request. If a later one fails, a
    new user is deleted again, and the error says what is left.
    """
    user = arguments.user
    password = read_password(arguments, os.environ, sys.stdin, _CHANCE)
    done: list[str] = []
    try:
        for mechanism in mechanisms:
            salt = salt_of(_CHANCE.secret(SALT_BYTES))
            await client.put(user, mechanism, password, salt, arguments.iterations)
            done.append(mechanism)
    except (RefusedError, UnreachableError) as error:
        left = await _not_deleted(client, user, done) if is_new else done
        if not left:
            raise
        again = f"run `tailrace user delete {user}`, and create the user again" if is_new else "run the command again"
        sentence = f"{error}; only {' and '.join(left)} has the new password: {again}"
        if isinstance(error, RefusedError):
            raise RefusedError(sentence, error.code) from error
        raise UnreachableError(sentence) from error
    print_generated(arguments, user, password)


async def _not_deleted(client: UserClient, user: str, mechanisms: list[str]) -> list[str]:
    """Deletes credentials, and returns those that could not be deleted."""
    for number, mechanism in enumerate(mechanisms):
        try:
            await client.delete(user, mechanism)
        except (RefusedError, UnreachableError):
            return mechanisms[number:]
    return []


def _password_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("user", metavar="USER", help="The user.")
    _iterations_option(parser)
    password_options(parser)


async def _password(client: UserClient, arguments: argparse.Namespace) -> None:
    user = await _existing(client, arguments.user)
    await _put(client, arguments, tuple(user.iterations))


async def _existing(client: UserClient, name: str) -> UserCredentials:
    found = await client.users([name])
    if not found:
        raise RefusedError(f"there is no user {name}", ErrorCode.RESOURCE_NOT_FOUND)
    return found[0]


# list


async def _list(client: UserClient, arguments: argparse.Namespace) -> None:
    users = await client.users()
    rows = [(each.name, ", ".join(each.iterations), ", ".join(map(str, each.iterations.values()))) for each in users]
    show_documents(
        arguments,
        [
            {
                "name": each.name,
                "credentials": [
                    {"mechanism": mechanism, "iterations": count} for mechanism, count in each.iterations.items()
                ],
            }
            for each in users
        ],
        lambda: table(("USER", "MECHANISMS", "ITERATIONS"), rows),
    )


# delete


def _delete_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("users", metavar="USER", nargs="+", help="Users to delete.")
    _mechanism_option(parser, "Delete only the credential for this mechanism")


async def _delete(client: UserClient, arguments: argparse.Namespace) -> None:
    for user in [await _existing(client, name) for name in arguments.users]:
        for mechanism in arguments.mechanism or user.iterations:
            await client.delete(user.name, mechanism)


def _command(name: str, options: Options, ask: _UserAsk, *, is_watchable: bool = False) -> Command:
    async def asking(spus: SpuClient, arguments: argparse.Namespace) -> None:
        await ask(UserClient(spus), arguments)

    return spu_command(f"user {name}", options, asking, is_watchable=is_watchable)


COMMANDS = {
    "create": _command("create", _create_options, _create),
    "list": _command("list", no_options, _list, is_watchable=True),
    "password": _command("password", _password_options, _password),
    "delete": _command("delete", _delete_options, _delete),
}
