from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import LogError
from headrace.log.position import Position

TOPICS = st.text("abcXYZ019._-", min_size=1, max_size=249)


@given(TOPICS, st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1))
def test_text_and_position_are_inverse(topic: str, partition: int, offset: int) -> None:
    position = Position(topic, partition, offset)
    assert Position.parse(str(position)) == position


def test_text() -> None:
    assert str(Position("payments", 0, 42)) == "payments[0]@42"


@pytest.mark.parametrize(
    "text", ["", "payments", "payments[0]", "payments[-1]@3", "pay ments[0]@1", "a[0]@1 ", "a[٣]@1"]
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(LogError) as caught:
        Position.parse(text)
    assert caught.value.code == "HR-214"
    assert "payments[0]@42" in caught.value.fix


def test_positions_are_ordered_by_offset_within_a_partition() -> None:
    assert Position("a", 0, 9) < Position("a", 0, 10) < Position("a", 1, 0) < Position("b", 0, 0)
