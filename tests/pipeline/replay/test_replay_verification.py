"""The verification of whole replays runs in compat_tests/spark/test_replay.py."""

from pathlib import Path

import pytest

from tailrace.pipeline.replay.replay_line import ReplayError
from tailrace.pipeline.replay.replay_proof import PartitionProof
from tailrace.pipeline.replay.replay_verification import document_at, result_of_proofs


def test_the_result_says_which_partition_is_wrong() -> None:
    good, bad = PartitionProof(0, 5, 5, 0, 0, 7, 7, True), PartitionProof(1, 5, 5, 2, 0, 7, 7, True)
    assert result_of_proofs("copy", (good,)).text().splitlines()[-1] == (
        "ok: copy has each of 5 records once, with the content that was sent"
    )
    found = result_of_proofs("copy", (good, bad))
    assert (found.status, found.verdict, found.facts["duplicates"]) == (1, "copy/1: duplicates", 2)


def test_another_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match="is no map of a replay"):
        document_at(str(tmp_path))
