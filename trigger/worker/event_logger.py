"""The logger of handlers: each line carries topic, shard and offset of the event that is being handled.

It has the methods of Nuclio's logger (`info`, `info_with`, …). Lines of Python's own `logging` take the same way, so
that libraries which a function uses need no setting. A worker that logs nothing does not import structlog, which is a
third of its start time and of its memory.
"""

import logging
import sys
from collections.abc import Callable, Mapping
from typing import NamedTuple

from .event import Event

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_OF_EVENT = ("topic", "shard", "offset")


class LogSettings(NamedTuple):
    """How a worker writes its logs."""

    level: str
    json: bool


class EventLogger:
    """Writes log lines to standard error, one JSON object or one line of text each."""

    def __init__(self, current: Callable[[], Event | None], settings: LogSettings | None = None) -> None:
        """Prepares the logger. `current` returns the event that is being handled, or the first one of a batch.
        `settings` are None if this process has set up its logs already."""
        self._current = current
        self._settings = settings
        self.bound: dict[str, object] = {}
        """Fields of each line, which `bind` has added."""

    def bind(self, **fields: object) -> None:
        """Adds fields to each later line."""
        self.bound |= fields

    def debug(self, message: object, *args: object, **fields: object) -> None:
        self.write("debug", message, args, fields)

    def info(self, message: object, *args: object, **fields: object) -> None:
        self.write("info", message, args, fields)

    def warning(self, message: object, *args: object, **fields: object) -> None:
        self.write("warning", message, args, fields)

    def error(self, message: object, *args: object, **fields: object) -> None:
        self.write("error", message, args, fields)

    def exception(self, message: object, *args: object, **fields: object) -> None:
        """Writes an error with the traceback of the exception that is being handled."""
        self.write("error", message, args, {"exc_info": sys.exc_info(), **fields})

    warn = warning
    critical = error
    debug_with = debug
    info_with = info
    warn_with = warning
    error_with = error

    def write(self, level: str, message: object, args: tuple[object, ...], fields: dict[str, object]) -> None:
        """Writes one line. A field of the caller that has the name of one of ours gets a `_` behind its name."""
        from tailrace.runtime import logs

        if self._settings is not None:
            logs.configure(self._settings.level, json=self._settings.json)
            self._settings = None
        text = text_of(message, args)
        ours: dict[str, object] = {}
        event = self._current()
        if event is not None:
            ours = dict(zip(_OF_EVENT, (event.topic, event.shard_id, event.offset), strict=True))
        taken = {"event", "level", "timestamp", *ours}
        theirs = {f"{name}_" if name in taken else name: value for name, value in (self.bound | fields).items()}
        logger = logs.get_logger()
        try:
            logger.log(_LEVELS[level], text, **ours, **theirs)
        except Exception:
            # No line is worth a failed event, for example one with a field that JSON cannot have.
            logger.log(_LEVELS[level], text, **ours, fields=_shown(theirs))


def text_of(message: object, args: tuple[object, ...]) -> str:
    """Returns the text of a line. Arguments that do not fit are shown behind the message."""
    text = message if isinstance(message, str) else _shown(message)
    if not args:
        return text
    try:
        return text % (args[0] if len(args) == 1 and isinstance(args[0], Mapping) else args)
    except Exception:
        return " ".join([text, *map(_shown, args)])


def _shown(value: object) -> str:
    try:
        return repr(value)
    except Exception:
        return f"<{type(value).__name__} that cannot be shown>"


class ForwardingHandler(logging.Handler):
    """Takes the lines of Python's `logging` to the logger of handlers."""

    def __init__(self, logger: EventLogger) -> None:
        super().__init__()
        self._logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        level = next((name for name, least in reversed(_LEVELS.items()) if record.levelno >= least), "debug")
        fields: dict[str, object] = {"logger": record.name}
        if record.exc_info:
            fields["exc_info"] = record.exc_info
        # Arguments that do not fit are shown behind the message, and not refused.
        args = record.args if isinstance(record.args, tuple) else (record.args,) if record.args else ()
        self._logger.write(level, record.msg, args, fields)
