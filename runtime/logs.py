"""Sets up structlog once, for all servers. Event names are past-tense facts; everything else is a field.

Log lines that cannot be written are lost. A broker goes on if the disk of its log is full, or if nothing reads its
standard error any more.
"""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO, cast


@contextmanager
def _without_rich() -> Iterator[None]:
    """Hides the library rich while structlog is imported.

    structlog imports rich wherever it finds it, to format tracebacks, which would add 70 ms to each start. If rich is
    hidden, structlog formats tracebacks as Python does.
    """
    hidden = "rich" not in sys.modules
    if hidden:
        sys.modules["rich"] = None  # type: ignore[assignment]  # Python's way to say that there is no such module
    try:
        yield
    finally:
        if hidden:
            del sys.modules["rich"]


with _without_rich():
    import structlog
    from structlog.typing import FilteringBoundLogger as FilteringBoundLogger  # other modules import it from here
    from structlog.typing import Processor

FORMATS = ("text", "json")
LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class _Lossy:
    """The part of a text stream that a logger needs; it ignores failed writes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


def configure(level: str = "info", *, json: bool | None = None) -> None:
    """Sends logs to standard error: one JSON object per line, or aligned text on a terminal."""
    if json is None:
        json = not sys.stderr.isatty()
    processors: list[Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if json:
        processors += [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer(default=str)]
    else:
        processors += [structlog.dev.ConsoleRenderer(colors=_shows_colours())]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(file=cast(TextIO, _Lossy(sys.stderr))),
        cache_logger_on_first_use=False,
    )


def is_json(given: str | None) -> bool:
    """Returns whether logs are JSON: what is given, or else JSON unless standard error is a terminal."""
    return not sys.stderr.isatty() if given is None else given == "json"


def _shows_colours() -> bool:
    """Whether colours suit the terminal and the user: see no-color.org."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def shows_debug() -> bool:
    """Returns whether debug events are logged, for callers whose events are expensive to prepare."""
    return get_logger().is_enabled_for(logging.DEBUG)


def get_logger() -> FilteringBoundLogger:
    """Returns the logger."""
    logger: FilteringBoundLogger = structlog.get_logger()
    return logger


def library_logger(name: str) -> FilteringBoundLogger:
    """Returns a logger for code that runs in the process of another program, whose handlers of `logging` decide."""
    logger: FilteringBoundLogger = structlog.wrap_logger(
        logging.getLogger(name),
        processors=[structlog.stdlib.filter_by_level, structlog.processors.KeyValueRenderer(key_order=["event"])],
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    return logger
