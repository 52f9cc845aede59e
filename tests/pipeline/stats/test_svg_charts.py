"""Tests that charts are well-formed, show each value, and escape what they are given."""

from xml.etree import ElementTree

from tailrace.pipeline.stats.svg_charts import WIDTH, Bar, Part, bars, columns, heat_map, parts

SVG = "{http://www.w3.org/2000/svg}"
NASTY = '<b>"&'


def _titles(chart: str) -> list[str | None]:
    return [each.text for each in ElementTree.fromstring(chart).iter(f"{SVG}title")]


def test_bars_have_a_title_each_and_end_inside_the_chart() -> None:
    chart = bars("Bytes", [Bar(NASTY, 10, "10", f"ten {NASTY}"), Bar("b", 0, "0", "none")], mean=5, mean_title="mean 5")
    assert _titles(chart) == ["Bytes", "mean 5", f"ten {NASTY}", "none"]
    texts = [each.text for each in ElementTree.fromstring(chart).iter(f"{SVG}text")]
    assert texts == [NASTY, "10", "b", "0"]
    places = [float(each.attrib["x"]) for each in ElementTree.fromstring(chart).iter(f"{SVG}text")]
    assert max(places) < WIDTH


def test_the_parts_of_a_bar_fill_it() -> None:
    chart = parts("Saved", [("records", [Part(1, "kept", "1 stays"), Part(3, "saved", "3 go")], "-75 %")])
    assert _titles(chart) == ["Saved", "1 stays", "3 go"]
    kept, saved = (float(each.attrib["width"]) for each in ElementTree.fromstring(chart).iter(f"{SVG}rect"))
    assert round((saved + 2) / (kept + 2)) == 3


def test_columns_label_only_what_has_room() -> None:
    chart = columns("Sizes", [Bar(str(each), each, str(each), f"{each} sizes") for each in range(30)])
    assert len(_titles(chart)) == 31
    labels = [each for each in ElementTree.fromstring(chart).iter(f"{SVG}text") if each.attrib["class"] == "tick"]
    assert len(labels) < 10
    assert "nothing to show" in columns("Sizes", [])


def test_a_heat_map_is_darkest_where_the_most_is() -> None:
    chart = heat_map("Rate", [(NASTY, [(0.0, "zero"), (1.0, "one"), (8.0, NASTY)])], ("a", "b", "c"), "8 records/s")
    cells = [each for each in ElementTree.fromstring(chart).iter(f"{SVG}rect") if len(each)]
    assert [each.attrib["class"] for each in cells] == ["heat0", "heat1", "heat7"]
    assert heat_map("Rate", [], (), "0").startswith("<svg")
