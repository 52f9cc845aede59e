"""The start of an SPU loads what describes the writing of markers, and not the writing itself."""

import subprocess
import sys


def test_an_spu_that_starts_does_not_load_the_writing_of_markers() -> None:
    program = "import sys, tailrace.broker.spu; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "tailrace.broker.transactions.markers.marker_host" in loaded
    assert "tailrace.broker.transactions.markers.marker_writing" not in loaded
    assert "tailrace.protocol.messages.write_txn_markers" not in loaded
