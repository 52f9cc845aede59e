"""Opens the audit log of a server as its settings say."""

import posixpath
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from tailrace.cluster.configs.audit_config_table import (
    BROKER_CONFIGS_OF_AUDIT,
    ENABLE,
    FAILURE_POLICY,
    FILE_BYTES,
    RETENTION_BYTES,
    SIGNING_KEY,
    STOP,
    TOPIC,
)
from tailrace.cluster.configs.broker_configs import BrokerConfigs
from tailrace.runtime.logs import FilteringBoundLogger
from tailrace.runtime.seams import Seams
from tailrace.runtime.settings import SettingsError
from tailrace.server.server_metrics import AuditCounts

if TYPE_CHECKING:
    from .audit_topic import AuditTopic
    from .audit_trail import AuditTrail


class OpenAudit(NamedTuple):
    """The audit log of a server, and its copy in a topic, if there is one."""

    trail: "AuditTrail"
    topic: "AuditTopic | None"


async def open_audit(
    configs: BrokerConfigs,
    server: str,
    data_directory: str,
    seams: Seams,
    logger: FilteringBoundLogger,
    stop: Callable[[], None],
) -> OpenAudit | None:
    """Opens the audit log, or returns None if it is turned off. Raises SettingsError.

    `server` names the server in a topic, for example `spu-1`. `stop` stops the server.
    """
    if not configs.value(ENABLE):
        _check_unused(configs)
        return None
    # Most servers have no audit log, and start faster without these modules.
    from tailrace.security.audit.audit_signatures import KeyFileError

    from .audit_files import DIRECTORY, AuditFiles, AuditFileSettings
    from .audit_lines import AuditLines
    from .audit_topic import AuditTopic
    from .audit_trail import AuditTrail

    directory = posixpath.join(data_directory, DIRECTORY)
    key_path = configs.value(SIGNING_KEY)
    assert key_path is None or isinstance(key_path, str)
    settings = AuditFileSettings(
        directory, key_path or None, configs.number(FILE_BYTES), configs.number(RETENTION_BYTES)
    )
    files = AuditFiles(settings, seams.files, logger)
    lines = AuditLines(directory, seams.files, lambda: files.end)
    name = configs.value(TOPIC)
    try:
        await files.open()
        if name is not None:
            await lines.open(seams.chance.secret(4).hex())
    except KeyFileError as error:
        raise SettingsError(f"{SIGNING_KEY}: {error}") from error
    except OSError as error:
        raise SettingsError(f"the audit log in {directory} cannot be opened: {error}") from error
    topic, counts = None, AuditCounts()
    if isinstance(name, str):
        topic = AuditTopic(name, server, files.public_key(), lines, seams.chance, counts, logger)
    on_failure = stop if configs.value(FAILURE_POLICY) == STOP else _do_nothing
    on_written = _do_nothing if topic is None else topic.on_written
    return OpenAudit(AuditTrail(files, seams.wall_clock, logger, on_failure, on_written, counts), topic)


def _do_nothing() -> None:
    pass


def _check_unused(configs: BrokerConfigs) -> None:
    for definition in BROKER_CONFIGS_OF_AUDIT:
        if definition.name != ENABLE and configs.layered((definition.name,)):
            raise SettingsError(f"{definition.name} has no effect, because {ENABLE} is not true")
