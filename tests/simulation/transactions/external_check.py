"""Has histories of simulated transactions checked by Adya, a program of others: `make histories SEEDS=100`.

Adya finds anomalies of isolation in list-append histories, as Jepsen's Elle does. Records of several transactions may
lie between each other in a log of Kafka. That is G0, so G0 is allowed, and so is G1c if its cycle has only ww edges.
Everything else that read_committed forbids is a failure.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from simulation.runner import task_of
from simulation.simulation import Outcome, simulate

from .list_append import edn
from .transaction_history import TransactionHistory
from .transaction_run import TransactionRun
from .transaction_scenario import TransactionScenario

CHECKER = ("check", "--json", "--model", "list-append", "--consistency-models", "read-committed")
CHECKED = (0, 1)
"""The exit statuses with which a history was checked: it is valid, or has anomalies."""


class ExternalCheckError(Exception):
    """The checker did not work."""


def recorded(scenario: TransactionScenario) -> tuple[Outcome, TransactionHistory]:
    """Simulates the scenario. Returns what clients did and saw, too."""
    runs: list[TransactionRun] = []

    class Recorded(TransactionRun):
        async def run(self) -> None:
            runs.append(self)
            await super().run()

    outcome = simulate(scenario, None, Recorded)
    return outcome, runs[0].history


def report_of(history: TransactionHistory, checker: str) -> dict[str, Any]:
    """Returns the report of the checker. Raises ExternalCheckError."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "history.edn"
        path.write_text(edn(history))
        done = subprocess.run([checker, *CHECKER, path], capture_output=True, text=True, check=False)
    if done.returncode not in CHECKED:
        raise ExternalCheckError(f"{checker} ended with status {done.returncode}: {done.stderr or done.stdout}")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def failures(report: Mapping[str, Any]) -> Iterator[str]:
    """Yields the anomalies that Kafka does not allow, with the explanation of the checker."""
    for name, found in report["anomalies"].items():
        for each in found:
            relations = {step["rel"] for step in (each.get("detail") or {}).get("steps", ())}
            is_allowed = name == "G0" or (name == "G1c" and relations == {"ww"})
            if not is_allowed:
                yield f"{name}: {each['explanation']}"


def check_seed(seed: int, policy: str, checker: str) -> list[str]:
    """Simulates a seed, and returns what is wrong with its history."""
    scenario = replace(task_of(seed, policy, 3, has_groups=False), has_transactions=True).scenario()
    assert isinstance(scenario, TransactionScenario)
    outcome, history = recorded(scenario)
    if outcome.failure is not None:
        return [f"{type(outcome.failure).__name__}: {outcome.failure}"]
    return list(failures(report_of(history, checker)))


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m simulation.transactions.external_check", description=__doc__)
    parser.add_argument("--checker", default="adya", help="the program, or its path")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--policy", default="all")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    options = parser.parse_args(arguments)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    check = partial(check_seed, policy=options.policy, checker=options.checker)
    failed = 0
    with ProcessPoolExecutor(options.processes) as pool:
        for seed, found in zip(seeds, pool.map(check, seeds), strict=True):
            failed += bool(found)
            for each in found:
                print(f"seed {seed}: {each}", flush=True)
    print(f"{len(seeds)} histories checked, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
