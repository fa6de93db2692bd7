"""The pictures of the documentation are what a run makes, can be read by a machine, and are shown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest
from docs.pictures import event_time
from docs.pictures.svg import Picture
from pyspark.sql import SparkSession

PAGE = event_time.TARGET / "time.md"
SHOWN = re.findall(r"!\[([^\]]+)\]\((\w+\.svg)\)", PAGE.read_text(encoding="utf-8"))
SVG = "{http://www.w3.org/2000/svg}"


def test_the_pictures_are_what_a_run_makes(spark: SparkSession, bootstrap: str):
    made = event_time.pictures(spark, bootstrap)
    assert sorted(made) == sorted(name for _, name in SHOWN)
    for name, text in made.items():
        committed = (event_time.TARGET / name).read_text(encoding="utf-8")
        assert text == committed, f"{name} is not what a run makes: python -m docs.pictures.event_time"


@pytest.mark.parametrize(("words", "name"), SHOWN, ids=[name for _, name in SHOWN])
def test_a_picture_tells_those_who_do_not_see_it(words: str, name: str):
    root = ElementTree.parse(event_time.TARGET / name).getroot()
    assert root.get("role") == "img"
    for part in ("title", "desc"):
        found = root.find(f"{SVG}{part}")
        assert found is not None
        assert found.text
    assert len(words) > 20


def places(element: ElementTree.Element) -> Iterator[tuple[float, float]]:
    for x, y in (("x", "y"), ("cx", "cy")):
        if element.get(x):
            yield float(element.get(x, 0)), float(element.get(y, 0))
    for pair in element.get("points", "").split():
        x, y = pair.split(",")
        yield float(x), float(y)


@pytest.mark.parametrize("name", [name for _, name in SHOWN])
def test_nothing_lies_beside_the_sheet(name: str):
    root = ElementTree.parse(event_time.TARGET / name).getroot()
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    outside = [
        p for element in root.iter() for p in places(element) if not (0 <= p[0] <= width and 0 <= p[1] <= height)
    ]
    assert outside == []


def test_a_sheet_is_safe_text_and_knows_its_styles():
    picture = Picture(10, 10, title="a < b", description="& so on")
    picture.text(1, 2, "<script>")
    root = ElementTree.fromstring(picture.written())
    assert [element.text for element in root.iter(f"{SVG}text")] == ["<script>"]
    with pytest.raises(ValueError, match="no style `pink`"):
        picture.dot(1, 1, "pink")
