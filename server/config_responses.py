"""The responses to AlterConfigs and IncrementalAlterConfigs, which differ only in the class of their rows."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from tailrace.cluster.configs.config_changes import Alteration
from tailrace.protocol.error_codes import ErrorCode, KafkaError

from .host import AdministeringHost

Row = TypeVar("Row")


async def alter(
    host: AdministeringHost, row: Callable[..., Row], wanted: Sequence[Alteration], *, validate_only: bool
) -> list[Row]:
    """Alters configs; returns a row of class `row` for each resource."""
    try:
        outcomes = await host.administration.alter_configs(wanted, validate_only=validate_only)
    except KafkaError as error:
        outcomes = [error] * len(wanted)
    return rows(row, ((each.kind, each.name) for each in wanted), outcomes)


def rows(
    row: Callable[..., Row], resources: Iterable[tuple[int, str]], outcomes: Iterable[KafkaError | None]
) -> list[Row]:
    """Makes a row for each resource, which is a pair of kind and name; its outcome is None if it was altered."""
    return [
        row(
            error_code=ErrorCode.NONE if error is None else error.code,
            error_message=None if error is None else error.message,
            resource_type=kind,
            resource_name=name,
        )
        for (kind, name), error in zip(resources, outcomes, strict=True)
    ]
