from tailrace.runtime.workers.shared_page import CONTENT_BYTES, SharedPage
from tailrace.trigger.work import Output, Shard
from tailrace.trigger.worker.event import Event, TriggerInfo
from tailrace.trigger.worker.event_decoder import make_event
from tailrace.trigger.worker.unsent_outputs import UnsentOutputs, kept_outputs
from tailrace.trigger.worker.worker_page import OUTPUTS_END

ONE, TWO, THREE = (Output("out", b"k", value, (("h", None),), 2, 3) for value in (b"1", b"2", b"3"))


class NoVerdicts:
    def acknowledge(self, event: Event) -> None: ...

    def fail(self, event: Event, reason: str) -> None: ...


def an_event() -> Event:
    return make_event(b"", shard=Shard("orders", 0), trigger=TriggerInfo("kafka-cluster", "t"), verdicts=NoVerdicts())


def test_outputs_of_handled_events_are_in_the_page() -> None:
    page = SharedPage()
    outputs = UnsentOutputs(page)
    event, failed = an_event(), an_event()
    outputs.emit(event, ONE)
    outputs.emit(event, TWO)
    assert outputs.keep()
    outputs.emit(failed, TWO)
    assert kept_outputs(page) == (ONE, TWO)
    outputs.forget([failed])
    assert outputs.keep()
    outputs.emit(None, THREE)
    assert outputs.keep()
    assert kept_outputs(page) == (ONE, TWO, THREE)
    assert outputs.take() == (ONE, TWO, THREE)
    assert kept_outputs(page) == (ONE, TWO, THREE)  # nothing was reported yet
    page.numbers[OUTPUTS_END] = 0
    outputs.emit(event, TWO)
    assert outputs.keep()
    assert kept_outputs(page) == (TWO,)


def test_outputs_that_do_not_fit_into_the_page_are_not_kept() -> None:
    page = SharedPage()
    outputs = UnsentOutputs(page)
    outputs.emit(None, ONE)
    assert outputs.keep()
    outputs.emit(None, Output("out", None, bytes(CONTENT_BYTES)))
    assert not outputs.keep()
    assert kept_outputs(page) == (ONE,)
    assert len(outputs.take()) == 2
    assert outputs.bytes == 0
