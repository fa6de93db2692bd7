"""Numbers as people read them."""

from __future__ import annotations

import pytest

from headrace.serve.console import figure


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (figure.count(0), "0"),
        (figure.count(9_999), "9,999"),
        (figure.count(12_345), "12.3k"),
        (figure.count(999_999), "1M"),
        (figure.count(4_560_000), "4.56M"),
        (figure.rate(None), "–"),
        (figure.rate(0.42), "0.4/s"),
        (figure.rate(1240), "1,240/s"),
        (figure.milliseconds(4.23), "4.2 ms"),
        (figure.milliseconds(3400), "3.4 s"),
        (figure.milliseconds(600_000), "10 min"),
        (figure.size(1_400_000), "1.34 MB"),
    ],
)
def test_figures(shown: str, text: str):
    assert shown == text


def test_a_spark_is_svg_of_numbers_only():
    assert figure.spark([]).startswith("<svg")
    assert figure.spark([0, 0, 0]).count("L") >= 2
    assert "nan" not in figure.spark([0.0, 1.5, 2.5])
