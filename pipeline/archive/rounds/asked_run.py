"""An archive run as its arguments ask for it: once, or round after round."""

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from tailrace.pipeline.archive.stores.archive_folder import ArchiveFolder
from tailrace.pipeline.jobs.broker_addresses import addresses_of, parse_brokers
from tailrace.pipeline.jobs.job_errors import JobError, WrongUsageError, checking_usage
from tailrace.pipeline.jobs.spark_session import check_classic, open_session
from tailrace.pipeline.schemas.ddl_schemas import schema_of_ddl
from tailrace.pipeline.schemas.value_schemas import read_value_schema

from .archive_planning import EARLIEST, LATEST, PlanError, parse_every, parse_when
from .archive_rounds import (
    NAME,
    ArchiveResult,
    ArchiveRound,
    ArchiveSettings,
    archive_every,
    open_or_create,
    source_of,
)
from .archive_sources import ArchiveSource
from .run_arguments import MIB

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tailrace.pipeline.jobs.job_progress import Report

_CHUNK_MIB_MAX = 1024


class RunAsked(Struct, frozen=True):
    """What the arguments ask for."""

    folder: ArchiveFolder
    source: ArchiveSource
    settings: ArchiveSettings
    every_seconds: float | None
    schema: str | None
    master: str | None

    def begun(self) -> tuple["SparkSession", ArchiveSettings]:
        """Opens the session, which alone can read a schema in Spark's language. Raises JobError."""
        spark = open_session(NAME, self.master)
        check_classic(spark, NAME)
        if self.schema is None:
            return spark, self.settings
        return spark, replace(self.settings, value_schema=read_value_schema(self.schema, partial(schema_of_ddl, spark)))


def asked(arguments: argparse.Namespace) -> RunAsked:
    """Reads the arguments, and opens or makes the archive, before Spark starts, which takes some seconds.

    Raises JobError and SettingsError.
    """
    if bool(arguments.topics) == arguments.all:
        raise WrongUsageError("name topics, or archive all of them with --all")
    if arguments.until is not None and arguments.every is not None:
        raise WrongUsageError("--until has no effect after the first round of --every: remove one of them")
    if not 1 <= arguments.chunk_mib <= _CHUNK_MIB_MAX:
        raise WrongUsageError(f"--chunk-mib must be from 1 to {_CHUNK_MIB_MAX}")
    try:
        settings = ArchiveSettings(
            topics=None if arguments.all else tuple(dict.fromkeys(arguments.topics)),
            begin=parse_when(arguments.begin, "--from", EARLIEST, LATEST),
            until_ms=_time(arguments.until),
            chunk_bytes=arguments.chunk_mib * MIB,
        )
        every = None if arguments.every is None else parse_every(arguments.every)
        if settings.until_ms is not None and isinstance(settings.begin, int) and settings.until_ms <= settings.begin:
            raise WrongUsageError("--until must be later than --from, because nothing lies between them")
    except PlanError as error:
        raise WrongUsageError(str(error)) from None
    brokers = [] if arguments.segments else [str(each) for each in parse_brokers(arguments.bootstrap)]
    sc = [str(each) for each in addresses_of(arguments.sc, "--sc")] if arguments.sc else []
    source = source_of(brokers, arguments.segments or ())
    with checking_usage():
        folder = open_or_create(arguments.to, sc)
    return RunAsked(folder, source, settings, every, arguments.schema, arguments.master)


def _time(text: str | None) -> int | None:
    if text is None:
        return None
    found = parse_when(text, "--until")
    assert isinstance(found, int), "no words are allowed"
    return found


def run_once(asked: RunAsked, report: "Report | None" = None) -> ArchiveResult:
    """Runs one round. Prints nothing. Raises JobError."""
    asked.source.look(asked.settings.topics, asked.settings.begin, asked.settings.until_ms)  # before Spark starts
    spark, settings = asked.begun()
    return ArchiveRound(spark, asked.folder, asked.source, settings).run(report)


def rounds(asked: RunAsked) -> Iterator[ArchiveResult | JobError]:
    """Yields the result of each round, without an end. Raises JobError."""
    assert asked.every_seconds is not None
    spark, settings = asked.begun()
    yield from archive_every(spark, asked.folder, asked.source, settings, asked.every_seconds)


def run_and_show(
    asked: RunAsked,
    output: str,
    show: Callable[[str], None],
    complain: Callable[[str], None],
    report: "Report | None" = None,
) -> int:
    """Runs once or again and again, shows each result, and returns the exit status. Raises JobError."""
    if asked.every_seconds is None:
        result = run_once(asked, report)
        show(result.json() if output == "json" else result.text())
        return result.status
    for found in rounds(asked):
        if isinstance(found, JobError):
            complain(f"{found}; the next round tries again")
        elif found.commits:
            show(found.line() if output == "json" else found.verdict)
    raise AssertionError("rounds have no end")
