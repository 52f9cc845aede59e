"""A logger that drops everything, because mutated inputs make a server log without end."""

from collections.abc import MutableMapping
from typing import NoReturn

import structlog

from tailrace.runtime.logs import FilteringBoundLogger


def _drop(logger: object, method: str, event: MutableMapping[str, object]) -> NoReturn:
    raise structlog.DropEvent


SILENT: FilteringBoundLogger = structlog.wrap_logger(
    None, processors=[_drop], wrapper_class=structlog.make_filtering_bound_logger(0)
)
