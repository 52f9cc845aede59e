import json

from tailrace.pipeline.jobs.job_results import NOT_OK, OK, JobResult


def test_a_result_is_text_that_a_person_can_check() -> None:
    facts = {"records": 1234567, "seconds": 1.5, "topic": "orders", "last": None}
    result = JobResult("archive", True, "every offset is there once", facts)
    assert result.text() == (
        "records  1 234 567\nseconds  1.500\ntopic    orders\nlast     -\nok: every offset is there once"
    )
    assert result.status == OK


def test_a_result_is_a_document_for_programs() -> None:
    result = JobResult("archive", False, "2 offsets are missing", {"missing": 2})
    assert json.loads(result.json()) == {
        "job": "archive",
        "is_ok": False,
        "verdict": "2 offsets are missing",
        "facts": {"missing": 2},
    }
    assert result.status == NOT_OK
    assert result.text().endswith("not ok: 2 offsets are missing")


def test_a_result_without_facts_is_its_verdict() -> None:
    assert JobResult("lag", True, "nothing to do").text() == "ok: nothing to do"
