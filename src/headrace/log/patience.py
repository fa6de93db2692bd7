"""A call into the Kafka client that may never end.

Not every call of the client heeds the time it is given. The one that commits offsets in a transaction waits for ever
when the group's coordinator went away and came back (librdkafka issues 5456 and 5511): it waits for a broker that it
has let go of. Nothing of Headrace waits on such a call itself: it is made in a thread of its own, and given up.

The same happens to a member of a group, which then hears nothing any more (consumer.py), and to the call that ends a
client: `let_go` does not wait for it.

What was given up may still happen, so the caller takes it for undecided, throws the client away and asks the log.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException

CLOSING_S = 5.0
Result = TypeVar("Result")


def begun(call: Callable[[], Result], name: str) -> Future[Result]:
    """The call, begun in a thread of its own, which ends with the call or with the process."""
    answer: Future[Result] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=run, name=f"headrace-{name}", daemon=True).start()
    return answer


def bounded(call: Callable[[], Result], seconds: float, name: str) -> Result:
    """What the call gives; KafkaException when it has given nothing within so many seconds."""
    try:
        return begun(call, name).result(seconds)
    except TimeoutError:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"no answer within {seconds:g} seconds")) from None


def let_go(close: Callable[[], object], name: str) -> None:
    """End a client without waiting for long: one that lost its broker may take its time, or for ever."""
    with suppress(TimeoutError):
        begun(close, f"closing-{name}").result(CLOSING_S)
