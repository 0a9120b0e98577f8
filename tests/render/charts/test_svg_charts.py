"""Every chart is well-formed, safe with any name, and holds the exact values that it shows."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.render.charts.bars import (
    LARGEST_TEXT,
    PLOT,
    THINNEST,
    TOP,
    WIDEST,
    RankedRow,
    StackPart,
    ranked_bars,
    stacked_bars,
)
from turnlog.render.charts.distributions import Spread, quantile_strips
from turnlog.render.charts.flame_graph import XHTML, FlameCell, flame_graph
from turnlog.render.charts.heat_maps import calendar, week_grid
from turnlog.render.charts.lines import ContextPoint, context_line, sparkline
from turnlog.render.charts.report_charts import axis_label, standalone
from turnlog.render.charts.svg import WIDTH, ChartOptions, _escaped, safe_text, text_width
from turnlog.render.charts.swim_lanes import Interval, Lane, swim_lanes
from turnlog.text import UNSAFE, short_duration

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = [
    "<script>alert(1)</script>",
    '" onload="alert(1)',
    "]]><!--",
    "&amp;&#x3c;",
    "javascript:alert(1)",
    "//evil.example/",
    "a\x00b\x1b[31m\x07\x9b",
    "\u202egnp.exe\u2066\u200f",
    "\ud800\ufffe\uffff\U000e0041",
    "line\nbreak\ttab\r",
    "日本語 👩‍👩‍👧 ümlaut",
    "x" * 3000,
    "",
]
Draw = Callable[[str, ChartOptions], str]
CHARTS: dict[str, Draw] = {
    "sparkline": lambda name, options: sparkline([(name, 1), ("b", None), ("c", 0)], options),
    "bars": lambda name, options: stacked_bars(
        [StackPart(name, name, 1.5), StackPart("b", name, None), StackPart("b", "s", 2)],
        [name, "b"],
        options,
    ),
    "ranked": lambda name, options: ranked_bars(
        [RankedRow(name, 3), RankedRow("b", None, name, name), RankedRow("c", 0)], options
    ),
    "calendar": lambda name, options: calendar({"2026-11-15": 4}, date(2026, 11, 16), options),
    "week": lambda name, options: week_grid({(0, 9): 3, (6, 23): None}, options),
    "quantiles": lambda name, options: quantile_strips(
        [Spread(name, 3, 0.0, 0.5, 1.5, 20.0, 7200.0)], options
    ),
    "flame": lambda name, options: flame_graph(
        FlameCell(name, 10, [FlameCell(name, 6, [FlameCell("file", 5)]), FlameCell("b", 3)]),
        options,
        lambda path: options.link("/".join(path)) if options.link else None,
    ),
    "lanes": lambda name, options: swim_lanes(
        [Lane(name, [Interval(0, 5, name), Interval(900, 901, "late", name)])], options
    ),
    "context": lambda name, options: context_line(
        [ContextPoint(name, 1000), ContextPoint("2", 400, is_compaction=True)], 2000, options
    ),
}


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(svg.encode("utf-8"))


def marks(root: ET.Element) -> list[ET.Element]:
    return [each for each in root.iter() if "data-value" in each.attrib]


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("kind", CHARTS)
def test_no_name_becomes_markup_or_reorders_text(kind: str, name: str) -> None:
    options = ChartOptions(name or "title", name, link=lambda key: key, labels=lambda key: key)
    svg = CHARTS[kind](name, options)
    root = parsed(svg)
    tags = {each.tag.removeprefix(SVG) for each in root.iter()}
    label = {"foreignObject", f"{{{XHTML}}}div"} if kind == "flame" else set[str]()
    assert tags <= {*"svg title desc rect line circle polyline polygon text g a".split()} | label
    names = {key for each in root.iter() for key in each.attrib}
    assert not any(each.startswith("on") or each == "style" for each in names)
    assert not set(svg) & set("\x00\x1b\x07\x9b\u202e\u2066\u200f\ufffe\uffff\n\t\r")


@pytest.mark.parametrize("kind", CHARTS)
def test_links_lead_into_the_app_only(kind: str) -> None:
    addresses = ["javascript:alert(1)", "//evil.example/", "https://evil.example/", "data:,", ""]
    for address in addresses:
        options = ChartOptions("title", link=lambda key, address=address: address)
        assert "href" not in CHARTS[kind]("name", options)
    options = ChartOptions("title", link=lambda key: "/sessions?q=a&b")
    links = parsed(CHARTS[kind]("name", options)).iter(f"{SVG}a")
    assert {link.get("href") for link in links} == {"/sessions?q=a&b"}


@pytest.mark.parametrize("kind", CHARTS)
def test_every_chart_and_every_mark_has_a_title(kind: str) -> None:
    root = parsed(CHARTS[kind]("name", ChartOptions("The title", "More words")))
    assert root.get("role") == "img"
    assert root.findtext(f"{SVG}title") == "The title"
    assert root.findtext(f"{SVG}desc") == "More words"
    assert marks(root)
    assert all(each.findtext(f"{SVG}title") for each in marks(root))


@pytest.mark.parametrize("kind", CHARTS)
def test_a_chart_with_links_is_no_image(kind: str) -> None:
    # Children of role="img" are presentational: their links would be lost to a screen reader.
    root = parsed(CHARTS[kind]("name", ChartOptions("title", link=lambda key: "/x")))
    assert root.get("role") == ("group" if root.find(f".//{SVG}a") is not None else "img")


@pytest.mark.parametrize("kind", CHARTS)
def test_a_standalone_chart_brings_its_styles(kind: str) -> None:
    root = parsed(standalone(CHARTS[kind]("name", ChartOptions("title"))))
    styles = root.findtext(f"{SVG}style") or ""
    assert "--series-1" in styles
    assert ".tl-chart" in styles
    assert "@import" not in styles
    assert "url(" not in styles


@given(st.text())
def test_text_parses_back_to_what_is_shown(text: str) -> None:
    shown = parsed(f"<a>{safe_text(text)}</a>").text or ""
    in_attribute = parsed(f'<a b="{safe_text(text)}"/>').get("b")
    assert shown == in_attribute
    assert not re.search(f"[{UNSAFE}]", shown)


@given(st.text(st.characters(max_codepoint=0x2FF)))
def test_plain_text_needs_no_escaping(text: str) -> None:
    assert safe_text(text) == _escaped(text)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("xyz"), st.floats(0, 1e12))))
def test_stacked_bars_hold_exact_values(rows: list[tuple[str, str, float]]) -> None:
    values = {(period, series): value for period, series, value in rows}
    parts = [StackPart(*place, value) for place, value in values.items()]
    root = parsed(stacked_bars(parts, "abcd", ChartOptions("title")))
    found = {
        (each.get("data-key"), each.get("data-series")): float(each.get("data-value") or "nan")
        for each in marks(root)
    }
    assert found == {place: value for place, value in values.items() if value}


def test_an_unknown_value_is_not_zero() -> None:
    (mark,) = marks(parsed(ranked_bars([RankedRow("a", None)], ChartOptions("title"))))
    assert mark.get("data-value") == ""
    assert mark.findtext(f"{SVG}title") == "a: unknown"


def test_a_ranked_row_has_room_for_its_value() -> None:
    path = f"/home/ada/{'deep/' * 20}handlers_of_hooks.py"
    row = RankedRow(path, 9, note="(6 unchanged)")
    root = parsed(ranked_bars([row], ChartOptions("title")))
    (box,) = root.findall(f"./{SVG}svg")
    value = text_width("9  (6 unchanged)", LARGEST_TEXT)
    assert float(box.get("x") or 0) + float(box.get("width") or 0) + value < WIDTH
    (shown,) = box.itertext()
    assert text_width(shown, LARGEST_TEXT) <= float(box.get("width") or 0)
    assert re.fullmatch("…/.*handlers_of_hooks[.]py", shown)


def test_values_before_notes_of_unequal_length_end_in_one_column() -> None:
    rows = [RankedRow("Bash", 722, note="8% failed"), RankedRow("Skill", 9, note="14% failed")]
    root = parsed(ranked_bars([*rows, RankedRow("LS", 4)], ChartOptions("title")))
    shown = [
        "".join(each.itertext())
        for each in root.iter(f"{SVG}text")
        if "tl-value" in (each.get("class") or "")
    ]
    assert shown == ["722  \u20078% failed", "9  14% failed", "4"]


def test_a_short_duration_is_not_shown_as_nothing() -> None:
    spread = Spread("Skill", 8, 0.004, 0.014, 0.09, 2.0, 41.0)
    text = quantile_strips([spread], ChartOptions("title", show=short_duration))
    assert "8 calls, median 0.014s" in text
    assert "Skill, p25: 0.004s" in text
    assert "Skill, p95: 2.0s" in text


def test_a_legend_keeps_the_ends_of_paths() -> None:
    paths = [f"/home/ada/{'deep/' * 20}{name}" for name in ("shop", "blog")]
    parts = [StackPart("a", path, 1) for path in paths]
    root = parsed(stacked_bars(parts, ["a"], ChartOptions("title")))
    boxes = root.findall(f"./{SVG}svg")
    texts = ["".join(box.itertext()) for box in boxes]
    assert {text.rpartition("/")[2] for text in texts} == {"shop", "blog"}
    for box, text in zip(boxes, texts, strict=True):
        assert text.startswith("…/")
        assert text_width(text, LARGEST_TEXT) <= float(box.get("width") or 0)


def test_a_day_of_many_years_can_be_seen() -> None:
    days = [f"{date(2020, 1, 1) + timedelta(days=n)}" for n in range(2000)]
    root = parsed(stacked_bars([StackPart(days[700], "a", 1)], days, ChartOptions("title")))
    (mark,) = marks(root)
    assert float(mark.get("width") or 0) == THINNEST
    assert "tl-thin" in (mark.get("class") or "").split()


def test_the_only_day_does_not_fill_the_chart() -> None:
    root = parsed(stacked_bars([StackPart("a", "b", 1)], ["a"], ChartOptions("title")))
    assert [float(mark.get("width") or 0) for mark in marks(root)] == [WIDEST]


@pytest.mark.parametrize(
    ("start", "count", "expected"),
    [
        ("2025-01-15", 672, ["Jan 15 2025", "Apr 9", "Jul 2", "Sep 24", "Dec 17", "Mar 11 2026"]),
        (
            "2025-11-10",
            672,
            ["Nov 10 2025", "Feb 2 2026", "Apr 27 2026", "Jul 20", "Oct 12", "Jan 4 2027"],
        ),
        ("2026-01-15", 16, ["Jan 15", "Jan 17", "Jan 19", "Jan 21", "Jan 23", "Jan 25"]),
    ],
)
def test_an_axis_names_the_years_if_there_are_several(
    start: str, count: int, expected: list[str]
) -> None:
    days = [f"{date.fromisoformat(start) + timedelta(days=n)}" for n in range(count)]
    options = ChartOptions("title", labels=axis_label)
    root = parsed(stacked_bars([StackPart(days[0], "a", 1)], days, options))
    y = str(TOP + PLOT + 17)
    texts = ["".join(each.itertext()) for each in root.iter(f"{SVG}text") if each.get("y") == y]
    assert texts[:6] == expected


def test_many_series_are_merged_without_losing_anything() -> None:
    parts = [StackPart("day", f"model {n:02d}", n + 1) for n in range(30)]
    root = parsed(stacked_bars(parts, ["day"], ChartOptions("title")))
    found = {each.get("data-series"): int(each.get("data-value") or 0) for each in marks(root)}
    assert len(found) == 8
    assert sum(found.values()) == sum(part.value or 0 for part in parts)
    assert found["other"] == sum(range(1, 24))


def test_small_cells_of_a_flame_graph_are_merged() -> None:
    children = [FlameCell(f"file {n}", 0.01) for n in range(1000)]
    root = parsed(flame_graph(FlameCell("all", 110, [FlameCell("big", 100), *children]), OPTIONS))
    found = {each.get("data-key"): float(each.get("data-value") or 0) for each in marks(root)}
    assert found == {"all": 110, "big": 100, "other (1000)": pytest.approx(10)}


def test_a_deep_flame_graph_is_cut_at_its_levels() -> None:
    cell = FlameCell("leaf", 1)
    for n in range(5000):
        cell = FlameCell(f"level {n}", 1, [cell])
    assert len(marks(parsed(flame_graph(cell, OPTIONS, levels=4)))) == 4


def test_pauses_in_all_lanes_are_collapsed_and_marked() -> None:
    lanes = [
        Lane("main", [Interval(0, 10, "a"), Interval(3610, 3620, "b")]),
        Lane("agent", [Interval(5, 20, "c")]),
    ]
    root = parsed(swim_lanes(lanes, OPTIONS))
    (idle,) = [each for each in root.iter() if each.get("data-event") == "idle"]
    assert idle.get("data-value") == "3590"
    width = {
        each.get("data-key"): float(each.get("width") or 0)
        for each in marks(root)
        if each.get("data-lane")
    }
    assert width["a"] == pytest.approx(width["b"], rel=0.01)
    assert width["a"] > 200  # an hour of nothing takes no room


def test_a_lane_with_ten_thousand_pauses_stays_in_the_picture() -> None:
    intervals = [Interval(n * 1000, n * 1000 + 1, str(n)) for n in range(10_000)]
    root = parsed(swim_lanes([Lane("main", intervals)], OPTIONS))
    assert max(float(each.get("x") or 0) for each in marks(root)) <= 720


def test_compactions_are_marked_in_the_context_line() -> None:
    points = [ContextPoint("1", 900), ContextPoint("2", 100, is_compaction=True)]
    root = parsed(context_line(points, 1000, OPTIONS))
    (event,) = [each for each in root.iter() if each.get("data-event") == "compaction"]
    assert event.get("data-key") == "2"
    values = {each.get("data-key"): each.get("data-value") for each in marks(root)}
    assert values == {"1": "900", "2": "100", "limit": "1000"}


@pytest.mark.parametrize(
    "svg",
    [
        stacked_bars([], [], ChartOptions("title")),
        ranked_bars([], ChartOptions("title")),
        quantile_strips([], ChartOptions("title")),
        swim_lanes([], ChartOptions("title")),
        context_line([], None, ChartOptions("title")),
        flame_graph(FlameCell("all", 0), ChartOptions("title")),
        sparkline([], ChartOptions("title")),
    ],
)
def test_nothing_to_draw_is_still_a_chart(svg: str) -> None:
    assert parsed(svg).get("viewBox")


OPTIONS = ChartOptions("title")


def test_a_long_path_is_shown_without_its_start_and_whole_in_its_title() -> None:
    path = f"/home/ada/{'deep/' * 20}shop.py"
    root = parsed(ranked_bars([RankedRow(path, 3)], ChartOptions("title")))
    (mark,) = marks(root)
    assert mark.get("data-key") == path
    assert mark.findtext(f"{SVG}title") == f"{path}: 3"
    (shown, _) = [each.text or "" for each in root.iter(f"{SVG}text")]
    assert shown.startswith("…/deep/")
    assert shown.endswith("/shop.py")


def test_days_without_a_value_have_the_shade_of_nothing() -> None:
    drawn = calendar({"2026-11-15": 4}, date(2026, 11, 16), ChartOptions("Turns"))
    shades = re.findall(r"tl-mark tl-heat-(\d)", drawn)
    assert sorted(set(shades)) == ["0", "4"]
    assert shades.count("4") == 1


def test_a_calendar_ends_with_its_last_day() -> None:
    drawn = calendar({}, date(2026, 11, 16), ChartOptions("Turns"))
    days = re.findall(r"20\d\d-\d\d-\d\d", drawn)
    assert max(days) == "2026-11-16"


def test_the_largest_bar_leaves_the_same_margin_on_both_sides() -> None:
    drawn = ranked_bars([RankedRow("a", 4), RankedRow("b", 1)], ChartOptions("Turns"))
    bars = re.findall(r'<rect [^>]*\bx="(\d+)"[^>]*\bwidth="(\d+)"', drawn)
    (left, width), (_, quarter) = ((int(x), int(wide)) for x, wide in bars[:2])
    assert left + width + left == WIDTH
    assert quarter == width // 4


def test_a_period_without_activity_is_a_thin_line() -> None:
    drawn = sparkline([("a", 1), ("b", 0), ("c", None)], ChartOptions("Turns"))
    assert re.findall(r'\bheight="([\d.]+)"', drawn)[-3:] == ["34", "0.5", "0.5"]


def test_charts_below_each_other_start_at_the_same_place() -> None:
    starts = {
        line.get("x1")
        for name in ("bars", "context")
        for line in parsed(CHARTS[name]("a", ChartOptions("title"))).iter(f"{SVG}line")
        if line.get("class") == "tl-grid"
    }
    assert len(starts) == 1
