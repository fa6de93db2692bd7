"""The topic of a table: compaction keeps what the table is, and a topic that was deleted is filled again."""

from __future__ import annotations

import json
import time

import pytest
from tests.capture.stage import Stage, eventually

from headrace.log import topic as topics
from headrace.log.topic import Topic, ensure

EAGER = {
    "segment.ms": "200",
    "min.cleanable.dirty.ratio": "0.001",
    "delete.retention.ms": "0",
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": "1000",
}


@pytest.mark.deep
@pytest.mark.timeout(300)
def test_compaction_keeps_the_table_and_tombstones_remove_keys(stage: Stage):
    """A new reader builds the table from offset 0, and of deleted rows nothing is left."""
    ensure(stage.connection, [Topic(stage.topic("cards"), 2, compacted=True, config=EAGER)])
    stage.execute("CREATE TABLE cards (id int PRIMARY KEY, n int)")
    stage.execute("INSERT INTO cards SELECT n, 0 FROM generate_series(1, 40) n")
    with stage.capturing(stage.table("cards")) as running:
        running.wait_until_read()
        for _ in range(5):
            stage.execute("UPDATE cards SET n = n + 1")
        stage.execute("DELETE FROM cards WHERE id <= 20")
        stage.wait_until_equal("cards")

        def compacted() -> bool:
            # Only closed segments are compacted: changes in each partition now and then close the last one.
            time.sleep(1)
            stage.execute("UPDATE cards SET n = n + 1 WHERE id > 23")
            records = stage.records("cards")
            assert {record.partition for record in records if json.loads(record.key or b"")["id"] > 23} == {0, 1}
            deleted = {record.key for record in records if record.key and json.loads(record.key)["id"] <= 20}
            return not deleted

        eventually(compacted, lambda: f"{len(stage.records('cards'))} records", seconds=200)
        stage.wait_until_equal("cards")
    assert all(
        record.value is not None for record in stage.records("cards") if json.loads(record.key or b"")["id"] <= 23
    )


def test_a_topic_that_was_deleted_is_filled_again(stage: Stage):
    stage.execute("CREATE TABLE cards (id int PRIMARY KEY)")
    stage.execute("INSERT INTO cards SELECT * FROM generate_series(1, 10)")
    with stage.capturing(stage.table("cards")) as running:
        running.wait_until_read()
    topics.delete(stage.connection, stage.topic("cards"))
    stage.execute("DELETE FROM cards WHERE id = 1")
    with stage.capturing(stage.table("cards")) as running:
        running.wait_until_read()
        stage.wait_until_equal("cards")
