"""A call that never ends is given up; every other one is passed through."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka import KafkaError, KafkaException

from headrace.log.patience import bounded


def test_what_the_call_gives_or_raises():
    assert bounded(lambda: 42, 60, "answer") == 42
    with pytest.raises(ZeroDivisionError):
        bounded(lambda: 1 // 0, 60, "answer")


def test_one_that_does_not_end_is_given_up():
    ends, ended = threading.Event(), threading.Event()

    def call() -> None:
        ends.wait(60)
        ended.set()

    with pytest.raises(KafkaException) as refused:
        bounded(call, 0.05, "answer")
    assert refused.value.args[0].code() == KafkaError._TIMED_OUT
    ends.set()
    assert ended.wait(60), "what was given up goes on by itself"
