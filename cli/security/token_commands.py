"""`tailrace token …`: creates, lists, renews and expires delegation tokens, on Apache Kafka as well.

A delegation token is a password that works for a limited time. The command that creates a token prints its HMAC, which
is the password; no other command does, and none takes it as an argument.
"""

import argparse
import base64
from collections.abc import Awaitable, Callable

from tailrace.cli.options.sc_options import Command, show_documents
from tailrace.cli.options.spu_options import Options, spu_command
from tailrace.cli.output.printing import time_text
from tailrace.cli.output.tables import fields, table
from tailrace.cli.output.times import duration_ms
from tailrace.client.spu_client import SpuClient
from tailrace.client.user_client import DelegationToken, TokenClient

from .acl_options import principal_of

_TokenAsk = Callable[[TokenClient, argparse.Namespace], Awaitable[None]]
_OF_THE_CLUSTER = -1
"""Stands for a period that the settings of the cluster have."""
_AT_ONCE = -1


def _period(text: str) -> int:
    found = duration_ms(text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is not a duration such as 90m, 12h or 2d")
    return found


def _token(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("token", metavar="TOKEN", help="The id of the token.")


# create


def _create_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--owner", metavar="USER", help="The user as whom the token logs in (default: you).")
    parser.add_argument(
        "--renewer",
        metavar="USER",
        action="append",
        default=[],
        help="Let this user renew and expire the token too; may be repeated.",
    )
    parser.add_argument(
        "--lifetime",
        metavar="DURATION",
        type=_period,
        default=_OF_THE_CLUSTER,
        help="How long the token can be renewed, at most delegation.token.max.lifetime.ms (default: that long).",
    )


async def _create(client: TokenClient, arguments: argparse.Namespace) -> None:
    owner = None if arguments.owner is None else principal_of(arguments.owner)
    token = await client.create(owner, [principal_of(each) for each in arguments.renewer], arguments.lifetime)
    password = base64.b64encode(token.hmac).decode()
    show_documents(
        arguments,
        {**_document(token), "hmac": password},
        lambda: fields(
            [
                ("token", token.id),
                ("hmac", password),
                ("owner", token.owner),
                ("expires", time_text(token.expires_ms)),
                ("can be renewed until", time_text(token.max_ms)),
            ]
        ),
    )


# list


def _list_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--owner", metavar="USER", action="append", default=[], help="List the tokens of this user.")


async def _list(client: TokenClient, arguments: argparse.Namespace) -> None:
    tokens = await client.tokens([principal_of(each) for each in arguments.owner])
    rows = [
        (each.id, each.owner, ", ".join(map(str, each.renewers)), time_text(each.expires_ms), time_text(each.max_ms))
        for each in tokens
    ]
    show_documents(
        arguments,
        [_document(each) for each in tokens],
        lambda: table(("TOKEN", "OWNER", "RENEWERS", "EXPIRES", "RENEWABLE UNTIL"), rows),
    )


def _document(token: DelegationToken) -> dict[str, object]:
    return {
        "token": token.id,
        "owner": str(token.owner),
        "requester": str(token.requester),
        "renewers": [str(each) for each in token.renewers],
        "issued": time_text(token.issued_ms),
        "expires": time_text(token.expires_ms),
        "renewableUntil": time_text(token.max_ms),
    }


# renew and expire


def _renew_options(parser: argparse.ArgumentParser) -> None:
    _token(parser)
    parser.add_argument(
        "--for",
        dest="period",
        metavar="DURATION",
        type=_period,
        default=_OF_THE_CLUSTER,
        help="How long the token is valid from now on (default: delegation.token.expiry.time.ms of the cluster).",
    )


async def _renew(client: TokenClient, arguments: argparse.Namespace) -> None:
    expires_ms = await client.renew(await client.token(arguments.token), arguments.period)
    _show_expiry(arguments, expires_ms)


def _expire_options(parser: argparse.ArgumentParser) -> None:
    _token(parser)
    parser.add_argument(
        "--in",
        dest="period",
        metavar="DURATION",
        type=_period,
        default=_AT_ONCE,
        help="Let the token expire after this time (default: at once).",
    )


async def _expire(client: TokenClient, arguments: argparse.Namespace) -> None:
    expires_ms = await client.expire(await client.token(arguments.token), arguments.period)
    _show_expiry(arguments, expires_ms)


def _show_expiry(arguments: argparse.Namespace, expires_ms: int) -> None:
    expires = time_text(expires_ms)
    show_documents(
        arguments,
        {"token": arguments.token, "expires": expires},
        lambda: fields([("token", arguments.token), ("expires", expires)]),
    )


def _command(name: str, options: Options, ask: _TokenAsk, *, is_watchable: bool = False) -> Command:
    async def asking(spus: SpuClient, arguments: argparse.Namespace) -> None:
        await ask(TokenClient(spus), arguments)

    return spu_command(f"token {name}", options, asking, is_watchable=is_watchable)


COMMANDS = {
    "create": _command("create", _create_options, _create),
    "list": _command("list", _list_options, _list, is_watchable=True),
    "renew": _command("renew", _renew_options, _renew),
    "expire": _command("expire", _expire_options, _expire),
}
