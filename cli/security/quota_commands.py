"""`tailrace quota …`: sets, lists and deletes quotas of users, client ids and addresses, on Apache Kafka as well."""

import argparse
from collections.abc import Sequence

from tailrace.cli.options.sc_options import UsageError, pairs, show_documents
from tailrace.cli.options.spu_options import admin_command
from tailrace.cli.output.printing import plain
from tailrace.cli.output.tables import table
from tailrace.client.admin_client import AdminClient
from tailrace.client.server_connection import RefusedError
from tailrace.cluster.similar_names import similar
from tailrace.security.quotas.quota_filters import DEFAULT, EXACT, EntityFilter
from tailrace.security.quotas.quota_rules import (
    CLIENT_QUOTAS,
    IP_QUOTAS,
    TYPES,
    QuotaError,
    changed_values,
    checked_entity,
)
from tailrace.security.records.quota_record import IP, QuotaEntity, QuotaRecord

_SHOWN_TYPES = {"user": "user", "client-id": "client id", "ip": "address"}
_DEFAULT = "(default)"


def _entity_options(parser: argparse.ArgumentParser) -> None:
    for kind, shown in _SHOWN_TYPES.items():
        either = parser.add_mutually_exclusive_group()
        either.add_argument(f"--{kind}", metavar="NAME" if kind != IP else "ADDRESS", help=f"The {shown}.")
        either.add_argument(
            f"--default-{kind}",
            action="store_true",
            help=f"Every {shown} that has no quota of its own.",
        )


def _parts(arguments: argparse.Namespace) -> list[tuple[str, str | None]]:
    """Returns the types and names that were given, with None for a default."""
    parts: list[tuple[str, str | None]] = []
    for kind in TYPES:
        name = getattr(arguments, kind.replace("-", "_"))
        if name is not None:
            parts.append((kind, name))
        elif getattr(arguments, f"default_{kind.replace('-', '_')}"):
            parts.append((kind, None))
    return parts


def _entity(arguments: argparse.Namespace) -> QuotaEntity:
    parts = _parts(arguments)
    if not parts:
        raise UsageError("say whose quota is meant: give --user, --client-id or --ip, or a default of these")
    try:
        return checked_entity(parts)
    except QuotaError as error:
        raise UsageError(str(error)) from error


# set


def _set_options(parser: argparse.ArgumentParser) -> None:
    _entity_options(parser)
    parser.add_argument(
        "limits",
        metavar="QUOTA=NUMBER",
        nargs="+",
        help=f"Limits to set: {', '.join((*CLIENT_QUOTAS, *IP_QUOTAS))}.",
    )
    parser.add_argument("--dry-run", action="store_true", help="Let the server check the change, and change nothing.")


async def _set(admin: AdminClient, arguments: argparse.Namespace) -> None:
    entity = _entity(arguments)
    changes: dict[str, float] = {}
    for name, text in pairs(arguments.limits, "").items():
        try:
            changes[_quota_named(entity, name)] = float(text)
        except ValueError:
            raise UsageError(f"{name}={text:.100}: expected a number") from None
    try:
        changed_values(entity, {}, list(changes.items()))
    except QuotaError as error:
        raise UsageError(str(error)) from error
    await admin.alter_quotas(entity, changes, validate_only=arguments.dry_run)
    note = "\nNothing was set: leave out --dry-run to do it." if arguments.dry_run else ""
    _show(arguments, [QuotaRecord(entity, changes)], note)


def _quota_named(entity: QuotaEntity, name: str) -> str:
    """Returns the quota of a name, which may have hyphens. Raises UsageError with a similar name, if there is one."""
    allowed = IP_QUOTAS if entity[0][0] == IP else CLIENT_QUOTAS
    wanted = name.replace("-", "_")
    if wanted in allowed:
        return wanted
    close = similar(wanted, allowed)
    hint = f"one of {', '.join(allowed)}" if close is None else f"did you mean {close}?"
    raise UsageError(f"{name!r:.100} is not a quota of this entity; {hint}")


# list


async def _list(admin: AdminClient, arguments: argparse.Namespace) -> None:
    filters = [EntityFilter(kind, DEFAULT if name is None else EXACT, name) for kind, name in _parts(arguments)]
    _show(arguments, await admin.quotas(filters))


# delete


def _delete_options(parser: argparse.ArgumentParser) -> None:
    _entity_options(parser)
    parser.add_argument("limits", metavar="QUOTA", nargs="*", help="Limits to delete; without any, all of the entity.")


async def _delete(admin: AdminClient, arguments: argparse.Namespace) -> None:
    entity = _entity(arguments)
    names = [_quota_named(entity, name) for name in arguments.limits]
    filters = [EntityFilter(kind, DEFAULT if name is None else EXACT, name) for kind, name in entity]
    stored = next((dict(each.values) for each in await admin.quotas(filters, is_strict=True)), {})
    if not names:
        names = list(stored)
    if missing := [name for name in names if name not in stored]:
        raise RefusedError(f"{_shown(entity)} has no quota {', '.join(missing)}")
    if not names:
        raise RefusedError(f"{_shown(entity)} has no quota")
    await admin.alter_quotas(entity, dict.fromkeys(names))
    deleted = QuotaRecord(entity, {name: stored[name] for name in names})
    show_documents(
        arguments,
        [_document(deleted)],
        lambda: plain(f"Deleted the quota {', '.join(names)} of {_shown(entity)}."),
    )


# output


def _shown(entity: QuotaEntity) -> str:
    return ", ".join(
        f"{_SHOWN_TYPES[kind]} {name}" if name is not None else f"the default {_SHOWN_TYPES[kind]}"
        for kind, name in entity
    )


def _document(record: QuotaRecord) -> dict[str, object]:
    return {
        "entity": [{"type": kind, "name": name, "isDefault": name is None} for kind, name in record.entity],
        "limits": dict(record.values),
    }


def _show(arguments: argparse.Namespace, records: Sequence[QuotaRecord], note: str = "") -> None:
    rows = []
    for record in sorted(records, key=lambda each: [(kind, name or "") for kind, name in each.entity]):
        parts = {kind: _DEFAULT if name is None else name for kind, name in record.entity}
        rows += [
            (*(parts.get(kind) for kind in TYPES), name, f"{value:.15g}")
            for name, value in sorted(record.values.items())
        ]
    show_documents(
        arguments,
        [_document(each) for each in records],
        lambda: table(("USER", "CLIENT ID", "ADDRESS", "QUOTA", "LIMIT"), rows) + note,
    )


COMMANDS = {
    "set": admin_command("quota set", _set_options, _set),
    "list": admin_command("quota list", _entity_options, _list, is_watchable=True),
    "delete": admin_command("quota delete", _delete_options, _delete),
}
