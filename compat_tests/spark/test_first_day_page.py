"""The first two Python examples of docs/first-day.md run one after the other, as a newcomer runs them."""

from __future__ import annotations

import contextlib
import io
import re
import uuid

from pyspark.sql import SparkSession

from .session import CONNECTOR, HERE

PAGE = HERE.parents[1] / "docs" / "first-day.md"


def test_the_first_examples_print_the_records(spark_session: SparkSession, bootstrap: str) -> None:
    assert spark_session  # the example uses the session that already exists
    examples = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    orders = f"orders-{uuid.uuid4().hex[:8]}"
    produce_and_consume, read_with_spark = (
        example.replace("127.0.0.1:9092", bootstrap).replace('"orders"', f'"{orders}"') for example in examples[:2]
    )
    with contextlib.redirect_stdout(io.StringIO()) as consumed:
        exec(produce_and_consume, {})
    assert consumed.getvalue().splitlines() == [f"0 {n} b'customer-7' b'order {n}'" for n in range(3)]
    assert CONNECTOR in read_with_spark
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        exec(read_with_spark, {})
    assert [f"|        0|     {n}|customer-7|order {n}|" in shown.getvalue() for n in range(3)] == [True] * 3
