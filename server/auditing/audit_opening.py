"""Opens the audit log of a server as its settings say."""

import posixpath
from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.cluster.configs.audit_config_table import (
    BROKER_CONFIGS_OF_AUDIT,
    ENABLE,
    FAILURE_POLICY,
    FILE_BYTES,
    RETENTION_BYTES,
    SIGNING_KEY,
    STOP,
)
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.seams import Seams
from tailrace.runtime.settings import SettingsError

if TYPE_CHECKING:
    from .audit_trail import AuditTrail


async def open_audit_trail(
    configs: BrokerConfigs,
    data_directory: str,
    seams: Seams,
    logger: FilteringBoundLogger,
    stop: Callable[[], None],
) -> "AuditTrail | None":
    """Opens the audit log, or returns None if it is turned off. `stop` stops the server. Raises SettingsError."""
    if not configs.value(ENABLE):
        _check_unused(configs)
        return None
    # Most servers have no audit log, and start faster without these modules.
    from tailrace.security.audit.audit_signatures import KeyFileError

    from .audit_files import DIRECTORY, AuditFiles, AuditFileSettings
    from .audit_trail import AuditTrail

    directory = posixpath.join(data_directory, DIRECTORY)
    key_path = configs.value(SIGNING_KEY)
    assert key_path is None or isinstance(key_path, str)
    settings = AuditFileSettings(
        directory, key_path or None, configs.number(FILE_BYTES), configs.number(RETENTION_BYTES)
    )
    files = AuditFiles(settings, seams.files, logger)
    try:
        await files.open()
    except KeyFileError as error:
        raise SettingsError(f"{SIGNING_KEY}: {error}") from error
    except OSError as error:
        raise SettingsError(f"the audit log in {directory} cannot be opened: {error}") from error
    stops = configs.value(FAILURE_POLICY) == STOP
    return AuditTrail(files, seams.wall_clock, logger, stop if stops else lambda: None)


def _check_unused(configs: BrokerConfigs) -> None:
    for definition in BROKER_CONFIGS_OF_AUDIT:
        if definition.name != ENABLE and configs.layered((definition.name,)):
            raise SettingsError(f"{definition.name} has no effect, because {ENABLE} is not true")
