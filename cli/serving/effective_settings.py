"""The values that a server would use, as texts for people, including the defaults of what was not given."""

from collections.abc import Callable, Mapping

from msgspec import Struct

from tailrace.runtime.settings import ListenerSettings, ScSettings, SpuSettings

from . import serve_sc, serve_spu, up
from .given_settings import OFF, GivenSettings
from .serving import LogSettings, log_settings


class ServerKind(Struct, frozen=True):
    """A command that runs a server, and how its settings are read and shown."""

    command: str
    names: frozenset[str]
    read: Callable[[GivenSettings], Mapping[str, str]]
    """Returns the value of each setting as text. Raises SettingsError."""
    placeholders: Mapping[str, str] = {}
    """Values for required settings, which a command line may give later."""
    broker_defaults: Callable[[GivenSettings], Mapping[str, str]] = lambda _: {}
    """Returns the broker configs that this server sets by itself. Raises SettingsError."""


def _up(given: GivenSettings) -> dict[str, str]:
    settings = up.read_settings(given)
    return {
        "data": settings.managed.data_directory,
        "public": _listeners(settings.managed.listeners),
        "published": given.text("published", ""),
        "private": _listener(settings.managed.private),
        "sc": _listener(settings.sc.listeners[0]),
        "sc-private": _listener(settings.sc.private),
        "metrics": _listener(settings.managed.metrics),
        "spus": str(settings.spus or "as many as last time, the first time 1"),
        "topic": ",".join(given.texts("topic")) if given.has("topic") else "",
        "ephemeral": str(settings.is_ephemeral).lower(),
        "secure": str(settings.is_secure).lower(),
        **_log(settings.log),
        "insecure": str(given.switch("insecure")).lower(),
    }


def _sc(given: GivenSettings) -> dict[str, str]:
    settings: ScSettings = serve_sc.read_settings(given)
    return {
        "data": settings.data_directory,
        "public": _listeners(settings.listeners),
        "private": _listener(settings.private),
        "metrics": _listener(settings.metrics),
        "store": settings.store,
        "store-config": settings.store_config or "",
        "reconciliation": f"{settings.reconciliation_seconds:g}",
        "replace-after": given.text("replace-after", "forever"),
        **_log(log_settings(given)),
        "insecure": str(given.switch("insecure")).lower(),
    }


def _spu(given: GivenSettings) -> dict[str, str]:
    settings: SpuSettings = serve_spu.read_settings(given)
    return {
        "id": str(settings.id),
        "data": settings.data_directory,
        "public": _listeners(settings.listeners),
        "published": given.text("published", ""),
        "private": _listener(settings.private),
        "sc": ",".join(map(str, settings.controllers)),
        "metrics": _listener(settings.metrics),
        "rack": settings.rack or "",
        **_log(log_settings(given)),
        "insecure": str(given.switch("insecure")).lower(),
    }


KINDS = {
    "up": ServerKind("up", up.NAMES, _up, broker_defaults=up.broker_defaults),
    "sc": ServerKind("serve sc", serve_sc.NAMES, _sc),
    "spu": ServerKind("serve spu", serve_spu.NAMES, _spu, {"id": "0", "sc": "127.0.0.1:9004"}),
}


def _log(settings: LogSettings) -> dict[str, str]:
    return {"log-level": settings.level, "log-format": settings.format or "text on a terminal, otherwise json"}


def _listener(listener: ListenerSettings | None) -> str:
    if listener is None:
        return OFF
    text = str(listener.address)
    if listener.advertised is not None:
        text += f"={listener.advertised}"
    return f"{text}, or a free port" if listener.may_move else text


def _listeners(listeners: tuple[ListenerSettings, ...]) -> str:
    return ",".join(map(_listener, listeners))
