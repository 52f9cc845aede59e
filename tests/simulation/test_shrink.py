"""A failing scenario loses the faults that do not contribute to the failure."""

from msgspec.structs import replace
from simulation.faults import Fault
from simulation.scenario import Scenario
from simulation.shrink import shrunk
from simulation.simulation import Outcome

FAULTS = [Fault(float(number), "kill_spu", number, 1.0, number) for number in range(9)]
SCENARIO = Scenario(0, faults=FAULTS)


def test_the_faults_that_cause_the_failure_are_left() -> None:
    runs = []

    def simulate(scenario: Scenario) -> Outcome:
        runs.append(len(scenario.faults))
        fails = {FAULTS[2], FAULTS[7]} <= set(scenario.faults)
        return Outcome(scenario, AssertionError("both") if fails else None)

    kept, outcome = shrunk(SCENARIO, simulate)
    assert kept == [2, 7]
    assert outcome.scenario == replace(SCENARIO, faults=[FAULTS[2], FAULTS[7]])
    assert len(runs) < 30


def test_a_failure_without_faults_keeps_none() -> None:
    kept, _ = shrunk(SCENARIO, lambda scenario: Outcome(scenario, AssertionError("always")))
    assert kept == []
