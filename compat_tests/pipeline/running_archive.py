"""Commands of `tailrace pipeline archive`, and what the archive holds, read without Tailrace."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from chaos.records import Log, Place
from cluster import tailrace
from pipeline.running_job import ENVIRONMENT, LOCAL, RUN_SECONDS_MAX


class ArchiveFiles:
    """The files of an archive as the disk shows them."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def temporary(self) -> set[Path]:
        return set(self.root.glob("data/*/*/*.tmp"))

    def parquet(self) -> set[Path]:
        return set(self.root.glob("data/*/*/*.parquet"))

    def commits(self) -> set[Path]:
        return set(self.root.glob("manifest/[0-9]*.json"))

    def heads(self) -> set[Path]:
        return set(self.root.glob("manifest/head-*.json"))

    def chunks(self) -> list[dict[str, Any]]:
        """Folds the manifest, from the first commit on."""
        found: dict[str, dict[str, Any]] = {}
        head = max(self.heads(), default=None)
        if head is None:
            return []
        link = json.loads(head.read_text())["commit"]
        chain = []
        while link is not None:
            commit = json.loads((self.root / "manifest" / link["name"]).read_text())
            chain.append(commit)
            link = commit.get("previous")
        for commit in reversed(chain):
            for removed in commit.get("chunks_removed", ()):
                del found[removed]
            for chunk in commit.get("chunks_added", ()):
                found[_chunk_id(chunk)] = chunk
        return list(found.values())

    def records(self, places: Sequence[Place]) -> dict[Place, Log]:
        """Returns the offsets and values of the files that count, ordered by offset, with duplicates."""
        logs: dict[Place, Log] = {place: [] for place in places}
        for chunk in self.chunks():
            for file in chunk.get("files", ()):
                table = pq.read_table(self.root / file["path"], columns=["offset", "value"], partitioning=None)
                rows = zip(table["offset"].to_pylist(), table["value"].to_pylist(), strict=True)
                logs[chunk["topic"], chunk["partition"]] += rows
        return {place: sorted(log) for place, log in logs.items()}


def _chunk_id(chunk: Mapping[str, Any]) -> str:
    partition, start, end = chunk["partition"], chunk["start"], chunk["end"]
    return f"{chunk['topic_id']}-p{partition:05d}-{start:020d}-{end:020d}-{chunk['token']}"


def contradictions(
    archived: Mapping[Place, Log], stored: Mapping[Place, Log], starts: Mapping[Place, int]
) -> list[str]:
    """Compares the archive with what a stock client reads. Offsets before `starts` may have been deleted meanwhile."""
    found = []
    for place, log in stored.items():
        offsets = Counter(offset for offset, _ in archived[place])
        twice = [offset for offset, times in offsets.items() if times > 1]
        missing = [offset for offset, _ in log if offset not in offsets]
        known = dict(log)
        extra = [offset for offset in offsets if offset not in known and offset >= starts.get(place, 0)]
        other = [offset for offset, value in archived[place] if known.get(offset, value) != value]
        for what, those in (("twice", twice), ("missing", missing), ("extra", extra), ("different", other)):
            if those:
                found.append(f"{place}: {len(those)} records are {what}: {those[:5]}")
    return found


_LAST_RUN = """
import contextlib, sys
from tailrace.cli.main import main
root, bootstrap, topic, data, *master = sys.argv[1:]
where = ["--bootstrap", bootstrap, *master]
with contextlib.redirect_stdout(sys.stderr):
    status = main(["pipeline", "archive", "run", topic, "--to", root, *where])
    status = status or main(["pipeline", "audit", *data.split(","), "--topic", topic, *master])
sys.exit(status or main(["pipeline", "archive", "verify", root, *where, "--output", "json"]))
"""


def finish(root: Path, bootstrap: str, topic: str, data: Sequence[Path]) -> tuple[int, dict[str, Any]]:
    """Archives the rest, audits the SPUs and verifies the archive, in one driver.

    `data` are the directories of the SPUs. Returns the first exit status that is not 0, and the report of the archive.
    """
    directories = ",".join(map(str, data))
    done = _run([sys.executable, "-c", _LAST_RUN, str(root), bootstrap, topic, directories, *LOCAL], root)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def compact(root: Path) -> str:
    """Runs `tailrace pipeline archive compact`, and returns what it printed; it must succeed."""
    done = _run(tailrace("pipeline", "archive", "compact", str(root), "--target-mib", "4", *LOCAL), root)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _run(command: list[str], root: Path) -> "subprocess.CompletedProcess[str]":
    environment = os.environ | ENVIRONMENT
    return subprocess.run(
        command, capture_output=True, text=True, timeout=RUN_SECONDS_MAX, env=environment, cwd=root.parent
    )
