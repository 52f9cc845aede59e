"""The examples of docs/spark.md run in their order, and print what the page shows below them."""

from __future__ import annotations

import contextlib
import io
import re
import uuid

import pyspark
from pyspark.sql import SparkSession

from .session import CONNECTOR, HERE

PAGE = HERE.parents[1] / "docs" / "spark.md"
BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_examples_print_what_the_page_shows(spark_session: SparkSession, bootstrap: str) -> None:
    page = PAGE.read_text()
    assert page.count('127.0.0.1:9092"') == 1
    # The page's broker and topic become this run's broker and a unique name.
    orders = f"orders-{uuid.uuid4().hex[:8]}"
    page = page.replace('"127.0.0.1:9092"', f'"{bootstrap}"').replace("orders-of-", f"{orders}-of-")
    page = re.sub(r'"orders"', f'"{orders}"', page)
    names: dict[str, object] = {}
    printed = shown = ""
    examples = 0
    for block in BLOCK.finditer(page):
        if block["language"] == "python":
            assert printed == shown, "an example printed what the page does not show"
            line = page[: block.start("text")].count("\n")
            # Empty lines at the start make a traceback name the line of the page.
            code = compile("\n" * line + block["text"], str(PAGE), "exec")
            with contextlib.redirect_stdout(io.StringIO()) as output:
                exec(code, names)
            printed, shown = output.getvalue().strip(), ""
            examples += 1
        elif block["language"] == "text":
            shown = block["text"].strip()
            assert printed == shown
    assert printed == shown
    assert examples == page.count("```python") > 5


def test_the_page_names_the_versions_that_are_tested() -> None:
    page = PAGE.read_text()
    assert f"pyspark=={pyspark.__version__}\n" in page
    assert f'"{CONNECTOR}"' in page
    settings = next(block["text"] for block in BLOCK.finditer(page) if block["language"] == "xml")
    assert settings in (HERE / "ivysettings.xml").read_text()
