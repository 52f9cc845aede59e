"""The command line of the simulation: it runs many seeds on all cores, and makes a failing one smaller for a replay."""

import argparse
import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Iterator, Sequence
from typing import Any

import trio
from msgspec import Struct
from msgspec.structs import replace

from .scenario import Scenario, group_scenario_of, scenario_of
from .shrink import shrunk
from .simulation import Outcome, simulate
from .transactions.transaction_run import simulate_transactions
from .transactions.transaction_scenario import TransactionScenario, transaction_scenario_of
from .triggers.trigger_run import simulate_triggers
from .triggers.trigger_scenario import TriggerScenario, trigger_scenario_of, with_transactions
from .world import Print

POLICIES = ("live", "majority", "nrw:3,2,2")
BY_TURNS = (*POLICIES * 3, "nrw:5,3,3", "nrw:5,2,4")
"""The policies of successive seeds for the option `all`."""

EXACTLY_ONCE_SEEDS = 4
"""In each of these seeds, replicas of a trigger store their output in transactions."""


class Task(Struct, frozen=True):
    seed: int
    policy: str
    replicas: int
    only_faults: tuple[int, ...] | None = None
    kinds: tuple[str, ...] | None = None
    """The kinds of faults, or None for all."""
    topic: tuple[tuple[str, str], ...] = ()
    """Topic configs that override those of the seed."""
    has_groups: bool = False
    has_triggers: bool = False
    has_transactions: bool = False
    groups: tuple[str, ...] | None = None
    """The kinds of groups, or None for the seed's choice."""
    has_erasers: bool | None = None
    """Whether clients delete records, or None for the seed's choice."""
    has_small_turns: bool = False
    copies_early: bool | None = None
    """Whether a replica that lacks a few batches copies them from followers, or None for the seed's choice."""
    has_quorum_readers: bool | None = None
    """Whether there are quorum readers, or None for the seed's choice."""
    may_shelve: bool = True
    """Whether old segments may be put on shelves, as the seed says."""

    def scenario(self) -> Scenario:
        make = group_scenario_of if self.has_groups else scenario_of
        if self.has_triggers:
            make = trigger_scenario_of
        if self.has_transactions:
            make = transaction_scenario_of
        more: dict[str, Any] = {} if self.kinds is None else {"faults": self.kinds}
        if not (self.has_groups or self.has_triggers or self.has_transactions):
            more["may_shelve"] = self.may_shelve
        replicas = int(self.policy[4:].split(",")[0]) if self.policy.startswith("nrw:") else self.replicas
        scenario = make(self.seed, self.policy, replicas=replicas, **more)
        if isinstance(scenario, TriggerScenario) and self.seed % EXACTLY_ONCE_SEEDS == 0:
            scenario = with_transactions(scenario)
        topic = {**scenario.topic, **dict(self.topic)}
        scenario = replace(scenario, topic=topic, has_small_turns=self.has_small_turns)
        if self.groups is not None:
            scenario = replace(scenario, groups=self.groups)
        if self.has_erasers is not None:
            scenario = replace(scenario, has_erasers=self.has_erasers)
        if self.copies_early is not None:
            scenario = replace(scenario, copies_early=self.copies_early)
        if self.has_quorum_readers is not None:
            scenario = replace(scenario, has_quorum_readers=self.has_quorum_readers)
        if self.only_faults is not None:
            scenario = replace(scenario, faults=[scenario.faults[index] for index in self.only_faults])
        return scenario

    def command(self, faults: Sequence[int] | None) -> str:
        words = f"make simulate SEEDS=1 FIRST_SEED={self.seed} POLICY={self.policy}"
        if self.replicas != 3:
            words += f" REPLICAS={self.replicas}"
        if self.has_groups:
            words += " GROUPS=1"
        if self.has_triggers:
            words += " TRIGGERS=1"
        if self.has_transactions:
            words += " TRANSACTIONS=1"
        if self.has_small_turns:
            words += " SMALL_TURNS=1"
        return words if faults is None else f"{words} FAULTS={','.join(map(str, faults)) or 'none'}"


class Report(Struct, frozen=True):
    """The part of an outcome that processes send to each other."""

    task: Task
    acknowledged: int
    faults: int
    elections: int
    copied_bytes: int
    shelf_copies: int
    seconds: float
    failure: str | None


def simulated(scenario: Scenario, show: Print | None = None) -> Outcome:
    """Simulates a scenario of any kind."""
    if isinstance(scenario, TriggerScenario):
        return simulate_triggers(scenario, show)
    if isinstance(scenario, TransactionScenario):
        return simulate_transactions(scenario, show)
    return simulate(scenario, show)


def run_task(task: Task) -> Report:
    outcome = simulated(task.scenario())
    failure = None if outcome.failure is None else describe(outcome.failure)
    return Report(
        task,
        outcome.acknowledged,
        outcome.faults,
        outcome.elections,
        outcome.copied_bytes,
        outcome.shelf_copies,
        outcome.seconds,
        failure,
    )


def describe(failure: BaseException) -> str:
    lines = traceback.format_exception(failure)
    return "".join(lines[-12:])


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument(
        "--policy", default="all", help="live, majority, nrw:N,R,W, or `all`: another one for each seed"
    )
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--groups", action="store_true", help="test consumer groups")
    parser.add_argument("--triggers", action="store_true", help="test triggers")
    parser.add_argument("--transactions", action="store_true", help="test transactions")
    parser.add_argument(
        "--small-turns",
        action="store_true",
        help="split work so finely that a few records take many turns and portions",
    )
    parser.add_argument("--faults", help="for a single seed: only these of its faults, by number, or none")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--failures", type=int, default=1, help="stop after so many failed seeds")
    parser.add_argument("--verbose", action="store_true", help="for a single seed: show the servers' logs")
    options = parser.parse_args(arguments)
    if options.seeds == 1 and options.policy != "all":
        return replay(options)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    tasks = [task_of(seed, options.policy, options.replicas, has_groups=options.groups) for seed in seeds]
    chosen = {"has_triggers": options.triggers, "has_transactions": options.transactions}
    tasks = [replace(task, has_small_turns=options.small_turns, **chosen) for task in tasks]
    return run_all(tasks, options.processes, options.failures)


def task_of(seed: int, policy: str, replicas: int, *, has_groups: bool) -> Task:
    policies = BY_TURNS if policy == "all" else (policy,)
    return Task(seed, policies[seed % len(policies)], replicas, has_groups=has_groups)


def replay(options: argparse.Namespace) -> int:
    chosen = None
    if options.faults is not None:
        chosen = () if options.faults == "none" else tuple(map(int, options.faults.split(",")))
    task = Task(
        options.first_seed,
        options.policy,
        options.replicas,
        chosen,
        has_groups=options.groups,
        has_triggers=options.triggers,
        has_transactions=options.transactions,
        has_small_turns=options.small_turns,
    )
    scenario = task.scenario()
    print(scenario.describe())
    for fault in scenario.faults:
        print(f"  {fault}")
    outcome = simulated(scenario, _print if options.verbose else None)
    if outcome.failure is None:
        print(f"passed: {outcome.acknowledged} records, {outcome.elections} elections, {outcome.seconds:.1f} s")
        return 0
    print(describe(outcome.failure))
    return 1


def _print(event: dict[str, Any]) -> None:
    at, name = event.pop("at", ""), event.pop("event")
    error = event.pop("exc_info", None)
    fields = " ".join(f"{key}={value!r}" for key, value in event.items())
    print(f"{trio.current_time():9.4f} {at:6} {name} {fields}", error or "")


def run_all(tasks: Sequence[Task], processes: int, failures_max: int) -> int:
    started = time.monotonic()
    done: list[Report] = []
    failed: list[Report] = []
    is_interrupted = False
    try:
        for report in _reports(tasks, processes):
            done.append(report)
            if report.failure is not None:
                failed.append(report)
                print(f"seed {report.task.seed} ({report.task.policy}) failed:\n{report.failure}")
                print(f"replay: {report.task.command(None)}", flush=True)
                if len(failed) >= failures_max:
                    break
    except KeyboardInterrupt:
        is_interrupted = True  # an interrupted run of many seeds still prints its figures
    seconds = time.monotonic() - started
    print(
        f"{len(done)} seeds, {len(failed)} failed: {sum(each.acknowledged for each in done)} records acknowledged, "
        f"{sum(each.faults for each in done)} faults, {sum(each.elections for each in done)} elections, "
        f"{sum(each.copied_bytes for each in done)} bytes copied from followers in "
        f"{sum(each.copied_bytes > 0 for each in done)} seeds, "
        f"{sum(each.shelf_copies for each in done)} copies of shelves in "
        f"{sum(each.shelf_copies > 0 for each in done)} seeds, "
        f"{sum(each.seconds for each in done) / 60:.0f} simulated minutes in {seconds:.0f} s; "
        f"{len(done) / seconds:.2f} seeds/s"
    )
    if failed and not is_interrupted:
        _shrink(failed[0].task)
    return 1 if failed else 0


def _reports(tasks: Sequence[Task], processes: int) -> Iterator[Report]:
    if processes == 1 or len(tasks) == 1:
        yield from map(run_task, tasks)
        return
    with multiprocessing.Pool(processes, signal.signal, (signal.SIGINT, signal.SIG_IGN)) as pool:
        yield from pool.imap_unordered(run_task, tasks)


def _shrink(task: Task) -> None:
    scenario = task.scenario()
    kept, outcome = shrunk(scenario, simulated)
    print(f"it still fails with {len(kept)} of its {len(scenario.faults)} faults:\n{_named(outcome)}")
    print(f"replay: {task.command(kept)}", flush=True)


def _named(outcome: Outcome) -> str:
    lines = [outcome.scenario.describe(), *(f"  {fault}" for fault in outcome.scenario.faults)]
    return "\n".join([*lines, f"  {type(outcome.failure).__name__}: {outcome.failure}"])
