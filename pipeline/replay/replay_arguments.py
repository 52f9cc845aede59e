"""The arguments of a replay, which the command line and the file for spark-submit share."""

import argparse
import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tailrace.pipeline.jobs.job_arguments import add_bootstrap, add_master, add_output, add_segments
from tailrace.pipeline.jobs.job_errors import checking_usage
from tailrace.pipeline.jobs.spark_session import close_session, open_session
from tailrace.runtime.embedded.plain_files import read_file

from .record_choice import RecordChoice, RecordChooser
from .record_masks import HASH, MaskError, parse_mask
from .replay_line import ReplayError
from .replay_pace import parse_speed

if TYPE_CHECKING:
    from tailrace.pipeline.jobs.job_progress import Report

    from .replay_run import ReplayResult

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments."""
    source = parser.add_argument_group("source")
    add_segments(source, "--from-segments", "Data directories of SPUs, whose files are read. The SPUs may run")
    source.add_argument("--from-archive", metavar="DIRECTORY", help="The directory of an archive.")
    source.add_argument("--topic", metavar="TOPIC", required=True, help="The topic whose records are sent.")
    source.add_argument("--topic-id", metavar="ID", help="Its id, if it was deleted and created again.")
    which = parser.add_argument_group("records")
    which.add_argument(
        "--partitions", metavar="P,P-P", type=_partitions, default=(), help="Only these partitions, such as 0,3-7."
    )
    which.add_argument(
        "--from",
        dest="start",
        metavar="WHERE",
        type=_place,
        help='Start at an offset, at offsets of partitions such as \'{"0":23,"1":40}\', or at a time such as '
        "2026-01-31T12:00:00Z.",
    )
    which.add_argument(
        "--until", metavar="WHERE", type=_place, help="Stop before this offset, these offsets or this time."
    )
    which.add_argument(
        "--key",
        metavar="PATTERN",
        action="append",
        default=[],
        help="Only records with this key; * and ? stand for any characters. May be repeated.",
    )
    which.add_argument(
        "--key-regex",
        metavar="REGEX",
        action="append",
        default=[],
        help="Only records in whose key this regular expression is found. May be repeated.",
    )
    which.add_argument(
        "--mask",
        metavar="PLACE=ACTION",
        action="append",
        default=[],
        help="Change key, value, value.FIELD.FIELD or header.NAME by drop, hash or replace:TEXT. May be repeated.",
    )
    which.add_argument(
        "--mask-secret", metavar="FILE", help="A file with the secret of masks with hash; it must stay the same."
    )
    target = parser.add_argument_group("target")
    target.add_argument("--to-topic", metavar="TOPIC", required=True, help="The topic that gets the records.")
    add_bootstrap(target)
    target.add_argument(
        "--map",
        metavar="DIRECTORY",
        help="Directory for the map from old to new offsets. With the same directory, the replay goes on.",
    )
    target.add_argument(
        "--speed",
        metavar="FACTOR",
        type=_speed,
        help="Keep the pace of the records' times: 1x, 10x or 0.5x (default: as fast as possible).",
    )
    target.add_argument(
        "--compression", choices=CODECS, default="zstd", help="How batches are compressed (default: zstd)."
    )
    target.add_argument("--dry-run", action="store_true", help="Show what would be sent, and send nothing.")
    job = parser.add_argument_group("job")
    add_master(job)
    add_output(job)


def run_replay(arguments: argparse.Namespace, report: "Report | None" = None) -> "ReplayResult":
    """Runs the replay that the arguments ask for. Prints nothing.

    Raises JobError, SettingsError, and UnreachableError and RefusedError of brokers.
    """
    with checking_usage():  # before Spark starts, which takes some seconds
        settings = settings_of(arguments)
    from .replay_run import SPARK_SETTINGS, replay

    spark = open_session("replay", arguments.master, SPARK_SETTINGS)
    try:
        return replay(spark, **settings, report=report)
    finally:
        close_session(spark)


def settings_of(arguments: argparse.Namespace) -> Mapping[str, Any]:
    """Returns the keyword arguments for `replay`. Raises ReplayError."""
    if arguments.from_segments is None and arguments.from_archive is None:
        raise ReplayError("--from-archive or --from-segments is missing: name an archive, or data directories of SPUs")
    if arguments.from_segments is not None and arguments.from_archive is not None:
        raise ReplayError("--from-archive and --from-segments cannot be used together")
    if arguments.map is None and not arguments.dry_run:
        raise ReplayError("--map is missing: name a directory for the map of offsets, by which the replay can go on")
    if arguments.dry_run and arguments.speed is not None:
        raise ReplayError("--speed has no effect together with --dry-run")
    secret = None if arguments.mask_secret is None else _secret(arguments.mask_secret)
    _check_changes(arguments, secret)
    return {
        "topic": arguments.topic,
        "to_topic": arguments.to_topic,
        "from_segments": arguments.from_segments,
        "from_archive": arguments.from_archive,
        "topic_id": arguments.topic_id,
        "bootstrap": arguments.bootstrap,
        "map_directory": arguments.map,
        "partitions": arguments.partitions,
        "start": arguments.start,
        "until": arguments.until,
        "keys": arguments.key,
        "key_regexes": arguments.key_regex,
        "masks": arguments.mask,
        "secret": secret,
        "speed": arguments.speed,
        "compression": arguments.compression,
        "dry_run": arguments.dry_run,
    }


def _check_changes(arguments: argparse.Namespace, secret: bytes | None) -> None:
    """Checks filters and masks before Spark starts. Raises ReplayError."""
    try:
        RecordChooser(RecordChoice(key_regexes=tuple(arguments.key_regex)))
        masks = [parse_mask(each) for each in arguments.mask]
    except (ValueError, MaskError) as error:
        raise ReplayError(str(error)) from None
    makes_hashes = any(each.action == HASH for each in masks)
    if makes_hashes and secret is None:
        raise ReplayError("--mask with hash needs --mask-secret: a file with a long random text, which stays the same")
    if secret is not None and not makes_hashes:
        raise ReplayError("--mask-secret has no effect without a --mask with hash")


def _secret(path: str) -> bytes:
    try:
        content = read_file(path).strip()
    except OSError as error:
        raise ReplayError(f"--mask-secret {path} cannot be read: {error.strerror}") from None
    if not content:
        raise ReplayError(f"--mask-secret {path} is empty: write a long random text into it")
    return content


def _place(text: str) -> int | dict[int, int] | datetime:
    if text.isdecimal():
        return int(text)
    try:
        if text.startswith("{"):
            return {int(partition): _offset(offset) for partition, offset in json.loads(text).items()}
        return datetime.fromisoformat(text)
    except (ValueError, TypeError, AttributeError):
        raise argparse.ArgumentTypeError(
            f'{text} is not an offset, offsets such as {{"0":23,"1":40}}, or a time such as 2026-01-31T12:00:00Z'
        ) from None


def _offset(offset: object) -> int:
    if not isinstance(offset, int) or offset < 0:
        raise ValueError
    return offset


def _partitions(text: str) -> tuple[int, ...]:
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part)
        if match is None or (match[2] is not None and int(match[2]) < int(match[1])):
            raise argparse.ArgumentTypeError(f"{text} is no list of partitions such as 0,3-7")
        found.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return tuple(sorted(found))


def _speed(text: str) -> float:
    try:
        return parse_speed(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
