"""Arguments that the commands of jobs and their files for spark-submit share, so that one name means one thing."""

import argparse
from typing import TypeAlias

from tailrace.runtime.settings_sources import BOOTSTRAP_VARIABLE
from tailrace.runtime.wall_clock import moment_ms

from .broker_addresses import BOOTSTRAP_DEFAULT
from .spark_session import MASTER_DEFAULT

OUTPUTS = ("table", "json")
Parser: TypeAlias = "argparse._ActionsContainer"
"""A parser, or a group of one."""


def add_topics(parser: Parser) -> None:
    """Adds `--topic`, which limits a job to some topics."""
    parser.add_argument(
        "--topic", metavar="TOPIC", action="append", default=[], help="Only this topic; may be repeated."
    )


def add_segments(parser: Parser, flag: str, explanation: str) -> None:
    """Adds a flag that names data directories of SPUs. It may be repeated, and one value may name several."""
    parser.add_argument(
        flag,
        metavar="DIRECTORY[,DIRECTORY]",
        action="extend",
        type=directories,
        help=f"{explanation}; may be repeated.",
    )


def add_bootstrap(parser: Parser, explanation: str = "Brokers of Tailrace or Apache Kafka") -> None:
    """Adds `--bootstrap`, which `parse_brokers` reads."""
    parser.add_argument(
        "--bootstrap",
        metavar="HOST:PORT[,HOST:PORT]",
        help=f"{explanation} (default: ${BOOTSTRAP_VARIABLE}, or {BOOTSTRAP_DEFAULT}).",
    )


def add_master(parser: Parser) -> None:
    """Adds `--master`, which `open_session` reads."""
    parser.add_argument(
        "--master",
        metavar="ADDRESS",
        help="Master of Spark, such as spark://HOST:7077 or local[2] (default: that of spark-submit, or "
        f"{MASTER_DEFAULT}: all cores of this machine).",
    )


def add_output(parser: Parser) -> None:
    """Adds `--output`, which says how the result is printed."""
    parser.add_argument("--output", "-o", choices=OUTPUTS, default="table", help="Output format (default: table).")


def directories(text: str) -> list[str]:
    """Reads `DIRECTORY,DIRECTORY`."""
    found = [each for each in text.split(",") if each]
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} names no directory")
    return found


def positive_number(text: str) -> int:
    """Reads a whole number above 0."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")
    return int(text)


def moment(text: str) -> int:
    """Reads a time, in milliseconds since 1970."""
    found = moment_ms(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time such as 2026-01-31T12:00:00Z")
    return found
