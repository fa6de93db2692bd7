"""Event times of devices whose clocks are wrong.

    app.source("taps", schema="id string, occurred timestamp, sent timestamp", id="id",
               event_time=hr.correct_clock("occurred", sent="sent"))

A device notes when something occurred and when it sent it, both by its own clock; the server notes when it received it.
How far the device's clock is off is about `received - sent`, so the corrected time is `occurred + (received - sent)`.
The way over the network counts as if the clock were off by it. Without `received` it is the record's own time in Kafka.
The column of the event time holds the corrected time; a record in which `sent` or `received` is null is taken as it
is.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ClockCorrection:
    """What `hr.correct_clock` gives; `app.source` reads it as its event time."""

    occurred: str
    sent: str
    received: str | None


def correct_clock(occurred: str, *, sent: str, received: str | None = None) -> ClockCorrection:
    """The event time of devices: the column `occurred`, corrected by how much their clocks are off."""
    return ClockCorrection(occurred, sent, received)
