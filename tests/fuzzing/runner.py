"""Runs targets with mutated inputs, and reports the inputs that find a bug.

A bug is an error that is no refusal, an input that takes too long, more memory than a small multiple of the input, or
memory that is still allocated afterwards. Everything runs in this process, and everything follows from the seed.
"""

import argparse
import gc
import signal
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from types import FrameType
from typing import NamedTuple

from tailrace.protocol.apis import API_TABLE
from tailrace.protocol.codec.compile import decoder, encoder, step_decoder
from tailrace.protocol.codec.primitives import uuid_of

from .mutations import mutant
from .sasl_targets import sasl_targets
from .scheduled_crowds import fuzz_crowds
from .served_connections import fill_routes, fuzz_connections
from .served_logins import fuzz_logins
from .shaken_hands import fuzz_handshakes
from .targets import Target, all_targets

ROUND_INPUTS = 100
"""How many inputs a target gets in a row by default."""
SCENARIO_SHARE = 20
"""After so many rounds of targets it is the turn of a scenario, such as inputs to connections of clients."""
MEASURED_SHARE = 25
"""One of so many inputs is read with a measurement of its memory."""
CONSTANT_BYTES = 64 * 1024
"""What reading any input may allocate, for example for an error message."""
SECONDS_MAX = 5
"""How long one input may take. A healthy one takes microseconds, so a slow machine does not matter."""
KEPT_BLOCKS_MAX = 3_000
"""How many blocks of memory may be added after the warm-up. Caches of a fixed size fill up meanwhile."""
WARM_UP_TURNS = 2


class Failure(NamedTuple):
    """An input that finds a bug."""

    target: str
    reason: str
    data: bytes

    def __str__(self) -> str:
        return f"{self.target}: {self.reason}\n  input: {self.data[:2000].hex()}"


class Outcome(NamedTuple):
    """What a run has found."""

    inputs: int
    refused: int
    kept_blocks: int
    failures: list[Failure]


class Scenario(NamedTuple):
    """A kind of inputs that needs a server and a client."""

    name: str
    fuzz: Callable[[int, int], tuple[int, list[tuple[str, bytes]]]]
    """Takes a seed and the number of inputs. Returns the number, and the bugs: what is wrong, with the input."""


SCENARIOS = (
    Scenario("connections", fuzz_connections),
    Scenario("logins", fuzz_logins),
    Scenario("handshakes of TLS", fuzz_handshakes),
    Scenario("crowds", fuzz_crowds),
)


class TookTooLongError(BaseException):
    """An input has taken longer than any input may take."""


def fuzz(
    inputs: int,
    seed: int,
    *,
    targets: Sequence[Target] | None = None,
    scenarios: Sequence[Scenario] = SCENARIOS,
    round_inputs: int = ROUND_INPUTS,
    on_progress: Callable[[Outcome], None] | None = None,
) -> Outcome:
    """Reads this many mutated inputs. A target gets `round_inputs` of them before it is the turn of the next one."""
    targets = [*all_targets(), *sasl_targets()] if targets is None else targets
    failures: list[Failure] = []
    done = refused = 0
    warm_blocks = -1
    rounds = _rounds(targets or [_NOTHING], seed)
    _fill_caches()
    warm_until = WARM_UP_TURNS * max(len(targets), 2 * len(scenarios))
    for number, (target, random, others) in enumerate(rounds):
        if done >= inputs or len(failures) >= 20:
            break
        if number == warm_until:
            warm_blocks = _blocks()
        if scenarios and (not targets or number % SCENARIO_SHARE == SCENARIO_SHARE - 1):
            scenario = scenarios[number // (SCENARIO_SHARE if targets else 1) % len(scenarios)]
            count, found = scenario.fuzz(random.randrange(2**62), round_inputs)
            done += count
            failures += (Failure(scenario.name, reason, data) for reason, data in found)
        if not targets:
            continue
        for data in _mutants(target, random, others, round_inputs):
            done += 1
            reason = _read(target, data, is_measured=done % MEASURED_SHARE == 0)
            if reason is None:
                refused += 1
            elif reason:
                failures.append(Failure(target.name, reason, data))
        if on_progress is not None and number % 2000 == 1999:
            on_progress(Outcome(done, refused, _kept(warm_blocks), failures))
    kept = _kept(warm_blocks)
    if kept > KEPT_BLOCKS_MAX:
        failures.append(Failure("all", f"{kept} blocks of memory were kept", b""))
    return Outcome(done, refused, kept, failures)


_NOTHING = Target("nothing", len, lambda random: [b""])
"""Stands for the targets if only scenarios run."""


def _rounds(targets: Sequence[Target], seed: int) -> Iterator[tuple[Target, Random, list[bytes]]]:
    """Yields each target in turn, with its own randomness and with messages of the target before it."""
    others: list[bytes] = [b"\x00"]
    turn = 0
    while True:
        for target in targets:
            random = Random(f"{seed} {turn} {target.name}")
            yield target, random, others
            others = target.samples(random)
        turn += 1


def _mutants(target: Target, random: Random, others: Sequence[bytes], count: int) -> Iterator[bytes]:
    samples = target.samples(random)
    others = [*others, *samples]
    for _ in range(count):
        yield mutant(random, samples[int(random.random() * len(samples))], others)


def _read(target: Target, data: bytes, *, is_measured: bool) -> str | None:
    """Reads an input. Returns what is wrong with that, "" if it was read, and None if it was refused."""
    began = time.perf_counter()
    if is_measured:
        tracemalloc.start()
    signal.alarm(4 * SECONDS_MAX)
    try:
        target.read(data)
        outcome: str | None = ""
    except target.refusals:
        outcome = None
    except TookTooLongError:
        return "it did not end"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        signal.alarm(0)
        if is_measured:
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
    if time.perf_counter() - began > SECONDS_MAX:
        return f"it took {time.perf_counter() - began:.1f} s"
    bytes_max = CONSTANT_BYTES + target.bytes_per_byte_max * len(data)
    # The table of a full cache may just have been replaced, so that only what happens twice counts.
    if is_measured and peak > bytes_max and _peak_bytes(target, data) > bytes_max:
        return f"{len(data)} bytes needed {peak} bytes of memory"
    return outcome


def _peak_bytes(target: Target, data: bytes) -> int:
    """Reads an input once more, and returns how much memory that needs."""
    tracemalloc.start()
    try:
        target.read(data)
    except target.refusals:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return peak


def _fill_caches() -> None:
    """Fills the caches of a fixed size, so that they do not grow during the run: UUIDs, compiled codecs and routes."""
    for number in range(uuid_of.cache_info().maxsize or 0):
        uuid_of(b"fuzzing of uuids"[:8] + number.to_bytes(8, "big"))
    for api in API_TABLE.values():
        for version in range(api.min_version, api.max_version + 1):
            encoder(api.request, version)
            decoder(api.request, version)
            step_decoder(api.request, version)
            encoder(api.response, version)
    fill_routes()


def _blocks() -> int:
    gc.collect()
    return sys.getallocatedblocks()


def _kept(warm_blocks: int) -> int:
    return 0 if warm_blocks < 0 else _blocks() - warm_blocks


def raise_too_long(number: int, frame: FrameType | None) -> None:
    """Handles SIGALRM, which ends an input that takes too long."""
    raise TookTooLongError


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="fuzzing", description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="only targets and scenarios whose names contain this")
    parser.add_argument("--failures", type=Path, help="a directory for the inputs that find a bug")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGALRM, raise_too_long)
    began = time.perf_counter()

    def tell(outcome: Outcome) -> None:
        print(
            f"{outcome.inputs:,} inputs in {time.perf_counter() - began:.0f} s: {outcome.refused:,} refused, "
            f"{outcome.kept_blocks} blocks kept, {len(outcome.failures)} failures",
            flush=True,
        )

    targets = [target for target in (*all_targets(), *sasl_targets()) if options.only in target.name]
    scenarios = [scenario for scenario in SCENARIOS if options.only in scenario.name]
    outcome = fuzz(options.inputs, options.seed, targets=targets, scenarios=scenarios, on_progress=tell)
    tell(outcome)
    for number, failure in enumerate(outcome.failures):
        print(failure)
        if options.failures is not None:
            options.failures.mkdir(parents=True, exist_ok=True)
            (options.failures / f"{number}.bin").write_bytes(failure.data)
    return 1 if outcome.failures else 0
