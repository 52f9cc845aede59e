"""Tests that the page stands alone, is well-formed, and shows all sections."""

import re
from html.parser import HTMLParser

from stat_examples import result, topic

from tailrace.pipeline.stats.stat_page import TOPICS_MAX, page_of

VOID = ("meta", "br", "hr", "img", "input", "link")


class _Tags(HTMLParser):
    """Checks that tags close in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def _tags(page: str) -> list[str]:
    parser = _Tags()
    parser.feed(page)
    assert parser.open == []
    return parser.seen


def test_the_page_is_well_formed_and_needs_neither_network_nor_script() -> None:
    page = page_of(result())
    tags = _tags(page)
    assert tags.count("svg") == tags.count("figure") == 8
    assert not set(tags) & {"script", "link", "img", "iframe"}
    assert set(re.findall(r'https?://[^"\s]+', page)) == {"http://www.w3.org/2000/svg"}
    assert "@import" not in page
    assert "url(" not in page


def test_the_page_says_what_the_statistics_say() -> None:
    page = page_of(result())
    for text in ("alice · p1", "(no key) · p0", "zstd", "75.0 %", "2023-11-14 22:13:20", "Duplicates (2 records)"):
        assert text in page, text


def test_an_archive_has_no_batches_to_show() -> None:
    page = page_of(result(topic(stored=None)))
    assert _tags(page).count("figure") == 6
    assert "Records of a batch" not in page


def test_what_records_contain_is_escaped() -> None:
    page = page_of(result(topic("<i>t", key="<script>alert(1)</script>")))
    assert "<script" not in page
    assert "<i>" not in page
    assert "&lt;script&gt;" in page


def test_many_topics_are_in_the_table_and_some_have_plots() -> None:
    page = page_of(result(*(topic(f"topic-{number}") for number in range(TOPICS_MAX + 2))))
    assert page.count("<h2>topic-") == TOPICS_MAX
    assert f"topic-{TOPICS_MAX + 1}" in page
    assert "2 more topics are in the table above only" in page


def test_the_most_frequent_key_is_shown_as_it_is() -> None:
    for key, shown in (("made in china", "made in china"), ("", "(empty)"), (None, "–")):
        page = page_of(result(topic(key=key)))
        assert f"<span>Most frequent key</span><b>{shown}</b>" in page
