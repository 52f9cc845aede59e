import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tailrace.cli.main import main

FUNCTION = """
    import os
    from tailrace.trigger import trigger

    def init_context(context):
        context.user_data.count = 0

    @trigger("orders", group="billing")
    def bill(context, event):
        context.user_data.count += 1
        context.logger.info_with("Billed", amount=3)
        context.emit("invoices", key=event.key, value=event.body.upper(), headers=event.headers)
        return {"count": context.user_data.count, "at": event.offset, "of": event.topic, "is": os.environ.get("MODE")}

    async def broken(context, event):
        return 1 / 0

    @trigger("orders", batch_size=10)
    def both(context, events):
        events[0].fail("first")
        return len(events)

    def ends(context, event):
        raise SystemExit(7)

    def nothing(context, event):
        event.acknowledge()

    def silent(context, event): ...
"""
YAML = """
    metadata: {name: mine}
    spec:
      handler: billing:bill
      env: [{name: MODE, value: test}]
      triggers:
        t: {kind: v3ioStream, url: http://v3io-webapi:8081/c/clicks@cg0, username: me}
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "billing.py"
    path.write_text(dedent(FUNCTION))
    (tmp_path / "function.yaml").write_text(dedent(YAML))
    return str(path)


@pytest.fixture(autouse=True)
def _unchanged_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("MODE", "")


def _invoke(*words: str) -> int:
    return main(["trigger", "invoke", *words])


def test_the_command_calls_the_function_and_shows_what_it_did(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _invoke(f"{file}:bill", "--event", "order 1", "--key", "k", "--header", "h=v", "--offset", "4") == 0
    out, err = capsys.readouterr()
    assert out == (
        "returned      {'count': 1, 'at': 4, 'of': 'orders', 'is': ''}\n"
        'emitted       invoices key="k" value="ORDER 1" h="v"\n'
    )
    assert err == "info     Billed amount=3\n"


def test_several_events_share_a_context(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _invoke(f"{file}:bill", "--event", "a", "--event", "b", "--output", "json") == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["returned"]["count"], second["returned"]["count"], second["returned"]["at"]) == (1, 2, 1)
    assert second["emitted"] == [{"topic": "invoices", "partition": None, "key": None, "value": "B", "headers": []}]
    assert second["logs"] == [{"level": "info", "message": "Billed", "amount": 3}]


def test_a_function_with_batches_gets_all_events_at_once(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _invoke(f"{file}:both", "--event", "a", "--event", "b") == 0
    assert capsys.readouterr().out == "returned      2\nfailed        offset 0: first\n"
    assert _invoke(f"{file}:both", "--event", "a", "--batch-size", "5") == 0


def test_acknowledgements_and_silence_are_shown(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _invoke(f"{file}:nothing", "--event", "a", "--acknowledgement", "explicit") == 0
    assert _invoke(f"{file}:silent", "--event", "a") == 0
    assert capsys.readouterr().out == "acknowledged  offset 0\nhandled       1 event\n"


def test_an_acknowledgement_needs_its_setting_as_in_a_worker(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _invoke(f"{file}:nothing", "--event", "a") == 1
    assert 'set acknowledgement="explicit"' in capsys.readouterr().err


def test_a_file_of_nuclio_gives_name_topic_and_variables(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _invoke(str(Path(file).parent), "--event", "a") == 0
    out, err = capsys.readouterr()
    assert "'of': 'clicks', 'is': 'test'" in out
    assert "function.yaml: line 7: username is deprecated and ignored" in err


def test_a_body_may_come_from_a_file(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    body = Path(file).with_name("order")
    body.write_bytes(b"x\xff")
    assert _invoke(f"{file}:bill", "--event-file", str(body), "--output", "json") == 0
    assert json.loads(capsys.readouterr().out)["emitted"][0]["value"] == {"base64": "WP8="}


def test_a_failing_function_shows_its_own_traceback_alone(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _invoke(f"{file}:broken", "--event", "a") == 1
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1] == f'  File "{file}", line 16, in broken'
    assert lines[-1] == (
        f"tailrace trigger invoke: {file}: line 16: the function failed: ZeroDivisionError: division by zero"
    )
    assert "invocation.py" not in err


def test_a_function_that_ends_the_process_has_failed(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _invoke(f"{file}:ends", "--event", "a") == 1
    assert capsys.readouterr().err.endswith(": line 24: the function failed: SystemExit: 7\n")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--event", "a", "--header", "x"), "--header x: expected NAME=VALUE"),
        ((), "give the body of an event with --event or --event-file"),
        (("--event-file", "/none"), "--event-file /none: No such file or directory"),
        (("--event", "a", "--env", "x"), "--env: ['x'] is not a list of environment variables NAME=VALUE"),
    ],
)
def test_wrong_usage_is_one_sentence(
    file: str, words: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _invoke(f"{file}:bill", *words) == 2
    assert capsys.readouterr().err.startswith(f"tailrace trigger invoke: {sentence}")


def test_the_program_reads_standard_input(file: str) -> None:
    command = [sys.executable, "-m", "tailrace", "trigger", "invoke", f"{file}:bill", "--event-file", "-"]
    done = subprocess.run(command, input=b"order 2", capture_output=True, check=True)
    assert b'value="ORDER 2"' in done.stdout
