"""`tailrace config …`: shows, sets and resets the configs of topics, brokers and groups."""

import argparse
from collections.abc import Sequence
from difflib import get_close_matches

from tailrace.cli.clients.admin_client import (
    BROKER_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    AdminClient,
    Config,
    ConfigResource,
)
from tailrace.cli.clients.server_connection import RefusedError
from tailrace.cli.options.sc_options import UsageError, pairs, show_documents
from tailrace.cli.options.spu_options import admin_command
from tailrace.cli.output.tables import table
from tailrace.protocol.error_codes import ErrorCode

from .config_tables import (
    DEFAULT,
    DYNAMIC_DEFAULT_BROKER,
    DYNAMIC_GROUP,
    DYNAMIC_TOPIC,
    config_table,
    document_of,
    explained,
    shown_value,
    source_of,
)

KINDS = {"topic": TOPIC_RESOURCE, "broker": BROKER_RESOURCE, "group": GROUP_RESOURCE}
_OWN_SOURCES = {
    TOPIC_RESOURCE: DYNAMIC_TOPIC,
    BROKER_RESOURCE: DYNAMIC_DEFAULT_BROKER,
    GROUP_RESOURCE: DYNAMIC_GROUP,
}
"""The source of a value that was set for the resource itself; for brokers, for all of them."""


def _list_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", metavar="KIND", choices=tuple(KINDS), help=f"What has the configs: {', '.join(KINDS)}.")


async def _list(admin: AdminClient, arguments: argparse.Namespace) -> None:
    kind = KINDS[arguments.kind]
    names = await admin.config_resources(kind)
    if kind == BROKER_RESOURCE:
        names = ["", *names]
    rows: list[tuple[str, Config]] = []
    for name in names:
        resource = ConfigResource(kind, name)
        rows += [(name, each) for each in await admin.configs(resource, documented=False) if _is_own(resource, each)]
    documents = [{arguments.kind: name, **document_of(config)} for name, config in rows]
    cells = [(name or "(all)", each.name, shown_value(each), source_of(each.source)) for name, each in rows]
    show_documents(arguments, documents, lambda: table((arguments.kind.upper(), "CONFIG", "VALUE", "SOURCE"), cells))


def _describe_options(parser: argparse.ArgumentParser) -> None:
    _resource_options(parser)
    parser.add_argument("configs", metavar="CONFIG", nargs="*", help="Explain only these configs.")
    parser.add_argument("--all", action="store_true", help="Show also the configs that nobody has set.")


async def _describe(admin: AdminClient, arguments: argparse.Namespace) -> None:
    resource = _resource(arguments)
    # The name of a broker may be left out, so that what looks like one can be the name of a config.
    configs = await admin.configs(resource)
    if arguments.configs:
        wanted = [_named(configs, name) for name in arguments.configs]
        documents = [document_of(each) for each in wanted]
        show_documents(arguments, documents, lambda: "\n\n".join(map(explained, wanted)))
        return
    shown = configs if arguments.all else [each for each in configs if _is_own(resource, each)]
    note = "" if shown or arguments.all else "no config is set; --all shows the defaults\n"
    show_documents(arguments, [document_of(each) for each in shown], lambda: f"{note}{config_table(shown)}")


def _set_options(parser: argparse.ArgumentParser) -> None:
    _resource_options(parser)
    parser.add_argument("changes", metavar="CONFIG=VALUE", nargs="+", help="Configs to set.")
    _dry_run(parser)


async def _set(admin: AdminClient, arguments: argparse.Namespace) -> None:
    changes = pairs(arguments.changes, "")
    await _alter(admin, arguments, dict(changes), "set")


def _reset_options(parser: argparse.ArgumentParser) -> None:
    _resource_options(parser)
    parser.add_argument("changes", metavar="CONFIG", nargs="+", help="Configs to reset.")
    _dry_run(parser)


async def _reset(admin: AdminClient, arguments: argparse.Namespace) -> None:
    await _alter(admin, arguments, dict.fromkeys(arguments.changes), "reset")


async def _alter(admin: AdminClient, arguments: argparse.Namespace, changes: dict[str, str | None], verb: str) -> None:
    resource = _resource(arguments)
    before = {each.name: each for each in await admin.configs(resource, documented=False)}
    if resource.name or resource.kind != BROKER_RESOURCE:  # The default of all brokers lists only what is set.
        for name in changes:
            _named(list(before.values()), name)
    await admin.alter_configs(resource, changes, validate_only=arguments.dry_run)
    now = before if arguments.dry_run else {each.name: each for each in await admin.configs(resource, documented=False)}
    rows = [
        (name, _value(before.get(name)), value if arguments.dry_run else _value(now.get(name)))
        for name, value in changes.items()
    ]
    documents = [{"name": name, "before": old, "after": new} for name, old, new in rows]
    note = f"\nNothing was {verb}: leave out --dry-run to do it." if arguments.dry_run else ""
    show_documents(arguments, documents, lambda: table(("CONFIG", "BEFORE", "AFTER"), rows) + note)


def _resource_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", metavar="KIND", choices=tuple(KINDS), help=f"What has the configs: {', '.join(KINDS)}.")
    parser.add_argument(
        "name", metavar="NAME", help="The topic, the group, or the id of the broker; `all` stands for all brokers."
    )


def _dry_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="Let the server check the change, and change nothing.")


def _resource(arguments: argparse.Namespace) -> ConfigResource:
    kind = KINDS[arguments.kind]
    if kind != BROKER_RESOURCE:
        return ConfigResource(kind, arguments.name)
    if arguments.name == "all":
        return ConfigResource(kind, "")
    if not arguments.name.isdecimal():
        raise UsageError(f"{arguments.name!r:.100} is neither the id of a broker nor `all`")
    return ConfigResource(kind, arguments.name)


def _is_own(resource: ConfigResource, config: Config) -> bool:
    """Tells whether the value belongs to this resource, and is neither a default nor that of all brokers."""
    if resource.kind == BROKER_RESOURCE and resource.name:
        return config.source != DEFAULT
    return config.source == _OWN_SOURCES[resource.kind]


def _named(configs: Sequence[Config], name: str) -> Config:
    """Returns the config of a name. Raises RefusedError with a similar name, if there is one."""
    for config in configs:
        if config.name == name:
            return config
    similar = get_close_matches(name, [config.name for config in configs], 1)
    hint = f"; did you mean {similar[0]}?" if similar else ""
    raise RefusedError(f"there is no config {name!r:.200}{hint}", ErrorCode.INVALID_CONFIG)


def _value(config: Config | None) -> str | None:
    return None if config is None else shown_value(config)


COMMANDS = {
    "list": admin_command("config list", _list_options, _list, is_watchable=True),
    "describe": admin_command("config describe", _describe_options, _describe, is_watchable=True),
    "set": admin_command("config set", _set_options, _set),
    "reset": admin_command("config reset", _reset_options, _reset),
}
