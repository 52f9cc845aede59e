"""structlog, set up once by the program's entry point: event names are past-tense facts, everything else is a field.

What cannot be written is lost: a broker goes on whose log lies on a full disk, or whose reader has gone.
"""

import logging
import sys
from contextlib import suppress
from typing import TextIO, cast

import structlog
from structlog.typing import FilteringBoundLogger, Processor

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class _Lossy:
    """Of a text stream, as much as a logger needs."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


def configure(level: str = "info", *, json: bool | None = None) -> None:
    """Logs go to standard error: one JSON object a line, or aligned text when a person is watching."""
    if json is None:
        json = not sys.stderr.isatty()
    processors: list[Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if json:
        processors += [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer(default=str)]
    else:
        processors += [structlog.dev.ConsoleRenderer()]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(file=cast(TextIO, _Lossy(sys.stderr))),
        cache_logger_on_first_use=False,
    )


def shows_debug() -> bool:
    """For what costs something even where it is not written."""
    return get_logger().is_enabled_for(logging.DEBUG)


def get_logger() -> FilteringBoundLogger:
    logger: FilteringBoundLogger = structlog.get_logger()
    return logger
