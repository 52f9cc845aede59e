"""Sends an archive or segments to a topic again: `replay(spark, topic="…", to_topic="…", …)`.

The driver plans, and each task sends some partitions with our own client. The names here are imported when they are
first used, so that a broker needs no PySpark.
"""

from typing import TYPE_CHECKING

from tailrace.runtime.embedded.lazy_names import lazy_names

if TYPE_CHECKING:
    from .map_parts import target_offset
    from .replay_line import ReplayError
    from .replay_run import ReplayResult, ReplayRow, replay
    from .replay_verification import VerifyReplayResult, verify_replay

__all__ = ["ReplayError", "ReplayResult", "ReplayRow", "VerifyReplayResult", "replay", "target_offset", "verify_replay"]

__getattr__ = lazy_names(
    __name__,
    {
        "ReplayError": "replay_line",
        "ReplayResult": "replay_run",
        "ReplayRow": "replay_run",
        "replay": "replay_run",
        "VerifyReplayResult": "replay_verification",
        "target_offset": "map_parts",
        "verify_replay": "replay_verification",
    },
)
