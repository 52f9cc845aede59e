from tailrace.cli.triggers.trigger_tables import replicas_text, trigger_table
from tailrace.controller.objects.objects import (
    FunctionSnapshot,
    Trigger,
    TriggerSpec,
    TriggerStatus,
)


def trigger(min_replicas: int | None = None) -> Trigger:
    spec = TriggerSpec("orders", "billing", FunctionSnapshot("/f.py", ""), replicas=5, min_replicas=min_replicas)
    return Trigger("bill", spec, TriggerStatus(revisions=(1, 1)))


def test_the_number_of_replicas_names_its_limits() -> None:
    assert replicas_text(trigger()) == "2"
    assert replicas_text(trigger(1)) == "2 (1 to 5)"


def test_a_table_without_triggers_is_its_heading() -> None:
    assert trigger_table([]) == "NAME  TOPIC  GROUP  REPLICAS  READY  REVISION  LAG  STATUS  REASON"
