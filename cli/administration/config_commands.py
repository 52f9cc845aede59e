"""`tailrace config …`: shows, sets and resets the configs of topics, brokers and groups."""

import argparse
from collections.abc import Sequence

from tailrace.cli.options.sc_options import UsageError, pairs, show_documents
from tailrace.cli.options.spu_options import admin_command
from tailrace.cli.output.tables import table
from tailrace.client.admin_client import (
    BROKER_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    AdminClient,
    Config,
    ConfigResource,
)
from tailrace.client.server_connection import RefusedError, unless_refused
from tailrace.cluster.similar_names import similar
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
ALL_BROKERS = "all"
ALL_OF_THEM = ConfigResource(BROKER_RESOURCE, "")
"""The defaults of all brokers."""
_OWN_SOURCES = {
    TOPIC_RESOURCE: DYNAMIC_TOPIC,
    BROKER_RESOURCE: DYNAMIC_DEFAULT_BROKER,
    GROUP_RESOURCE: DYNAMIC_GROUP,
}
"""The source of a value that was set for the resource itself; for brokers, for all of them."""


async def _list(admin: AdminClient, arguments: argparse.Namespace) -> None:
    kind = KINDS[arguments.kind]
    names = await admin.config_resources(kind)
    if kind == BROKER_RESOURCE:
        names = ["", *names]
    rows: list[tuple[str, Config]] = []
    for resource, configs in (await admin.configs_of([ConfigResource(kind, name) for name in names])).items():
        rows += [(resource.name, each) for each in unless_refused(configs) if _is_own(resource, each)]
    documents = [{arguments.kind: name, **document_of(config)} for name, config in rows]
    cells = [(name or "(all)", each.name, shown_value(each), source_of(each.source)) for name, each in rows]
    show_documents(arguments, documents, lambda: table((arguments.kind.upper(), "CONFIG", "VALUE", "SOURCE"), cells))


def _describe_options(parser: argparse.ArgumentParser) -> None:
    _resource_options(parser)
    parser.add_argument("configs", metavar="CONFIG", nargs="*", help="Explain only these configs.")
    parser.add_argument("--all", action="store_true", help="Also show the configs that are not set.")


async def _describe(admin: AdminClient, arguments: argparse.Namespace) -> None:
    resource = _resource(arguments, arguments.configs)
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
    resource = _resource(arguments, arguments.changes)
    await _alter(admin, arguments, resource, dict(pairs(arguments.changes, "")), "set")


def _reset_options(parser: argparse.ArgumentParser) -> None:
    _resource_options(parser)
    parser.add_argument("changes", metavar="CONFIG", nargs="+", help="Configs to reset.")
    _dry_run(parser)


async def _reset(admin: AdminClient, arguments: argparse.Namespace) -> None:
    resource = _resource(arguments, arguments.changes)
    await _alter(admin, arguments, resource, dict.fromkeys(arguments.changes), "reset")


async def _alter(
    admin: AdminClient,
    arguments: argparse.Namespace,
    resource: ConfigResource,
    changes: dict[str, str | None],
    verb: str,
) -> None:
    before = {each.name: each for each in await admin.configs(resource, documented=False)}
    known = [*before.values()]
    if resource == ALL_OF_THEM:  # It lists only what is set, and Apache Kafka would accept any name.
        known += await admin.configs(await _some_broker(admin), documented=False)
    for name in changes:
        _named(known, name)
    await admin.alter_configs(resource, changes, validate_only=arguments.dry_run)
    now = before if arguments.dry_run else {each.name: each for each in await admin.configs(resource, documented=False)}
    rows = [
        (name, _value(before.get(name)), value if arguments.dry_run else _value(now.get(name)))
        for name, value in changes.items()
    ]
    documents = [{"name": name, "before": old, "after": new} for name, old, new in rows]
    note = f"\nNothing was {verb}: leave out --dry-run to do it." if arguments.dry_run else ""
    show_documents(arguments, documents, lambda: table(("CONFIG", "BEFORE", "AFTER"), rows) + note)


async def _some_broker(admin: AdminClient) -> ConfigResource:
    """Returns a broker that is online."""
    names = await admin.config_resources(BROKER_RESOURCE)
    if not names:
        raise RefusedError("no broker is online", ErrorCode.BROKER_NOT_AVAILABLE)
    return ConfigResource(BROKER_RESOURCE, names[0])


def _kind_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", metavar="KIND", choices=tuple(KINDS), help=f"What has the configs: {', '.join(KINDS)}.")


def _resource_options(parser: argparse.ArgumentParser) -> None:
    _kind_option(parser)
    parser.add_argument(
        "name",
        metavar="NAME",
        nargs="?",
        help="The topic, the group, or the id of the broker; without it, or with `all`, all brokers are meant.",
    )


def _dry_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="Let the server check the change, and change nothing.")


def _resource(arguments: argparse.Namespace, words: list[str]) -> ConfigResource:
    """Reads the topic, broker or group. A word that cannot be the id of a broker is moved to the front of `words`."""
    kind, name = KINDS[arguments.kind], arguments.name
    if kind != BROKER_RESOURCE:
        if name is None:
            raise UsageError(f"give the name of the {arguments.kind} before the configs")
        return ConfigResource(kind, name)
    if name is None or name == ALL_BROKERS:
        return ALL_OF_THEM
    if name.isdecimal():
        return ConfigResource(kind, name)
    if "." in name or "=" in name:
        words.insert(0, name)
        return ALL_OF_THEM
    raise UsageError(f"{name!r:.100} is neither the id of a broker nor `{ALL_BROKERS}`")


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
    close = similar(name, [config.name for config in configs])
    hint = "" if close is None else f"; did you mean {close}?"
    raise RefusedError(f"there is no config {name!r:.200}{hint}", ErrorCode.INVALID_CONFIG)


def _value(config: Config | None) -> str | None:
    return None if config is None else shown_value(config)


COMMANDS = {
    "list": admin_command("config list", _kind_option, _list, is_watchable=True),
    "describe": admin_command("config describe", _describe_options, _describe, is_watchable=True),
    "set": admin_command("config set", _set_options, _set),
    "reset": admin_command("config reset", _reset_options, _reset),
}
