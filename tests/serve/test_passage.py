"""Read your writes: a read waits until what was written has come through every step, or says which one it waits for."""

from __future__ import annotations

import threading

from tests.serve.client import Answer
from tests.serve.conftest import MakeStage, Serve
from tests.serve.stage import Stage

from headrace import names
from headrace.log.connection import Connection
from headrace.log.consumer import Consumer
from headrace.log.producer import Producer
from headrace.log.topic import Topic, ensure


def consumed(connection: Connection, app: str, query: str, topic: str, count: int) -> None:
    """Commit for a query that it has consumed, and written the results of, so many records."""
    with Consumer(connection, names.group(app, query), [topic]) as consumer:
        for _ in range(count):
            assert consumer.poll(30) is not None
        consumer.commit()


def made(connection: Connection, app: str, make_stage: MakeStage) -> tuple[Stage, str, str]:
    """A view two queries behind its input."""
    events, clean = f"{app}.events", f"{app}.clean"
    ensure(connection, [Topic(events, 1), Topic(clean, 1)])
    path = (("clean", clean, (events,)), ("pages", f"{app}.pages", (clean,)))
    return make_stage(path=path), events, clean


def test_a_read_waits_for_each_step(connection: Connection, app: str, make_stage: MakeStage, serve: Serve):
    stage, events, clean = made(connection, app, make_stage)
    stage.apply()
    site = serve()
    with Producer(connection) as producer:
        written = producer.send(events, {"url": "/a"}, key="/a").wait()

    def read(wait: str = "0") -> Answer:
        return site.get("/views/pages", {"at_least": str(written), "wait": wait})

    def waiting(answer: Answer) -> list[tuple[str, bool]]:
        assert (answer.status, answer.json["code"]) == (409, "HR-509")
        return [(step["step"], step["passed"]) for step in answer.json["steps"]]

    assert waiting(read()) == [("query clean", False)]
    (place,) = read().json["steps"][0]["places"]
    assert place == {"topic": events, "partition": 0, "wanted": 1, "at": None}
    with Producer(connection) as producer:
        producer.send(clean, {"url": "/a"}, key="/a").wait()
    consumed(connection, app, "clean", events, 1)
    assert waiting(read()) == [("query clean", True), ("query pages", False)]
    stage.put({"url": "/a", "views": 1})
    consumed(connection, app, "pages", clean, 1)
    assert waiting(read())[-1] == (f"table {app}.pages", False)

    answers: list[Answer] = []
    patient = threading.Thread(target=lambda: answers.append(read("30")))
    patient.start()
    stage.apply()
    patient.join()
    assert [row["url"] for row in answers[0].json["rows"]] == ["/a"]
    for path in ("/views/pages", "/views/pages/%2Fa"):
        assert site.get(path, {"at_least": f"{written},{clean}[0]@0"}).status == 200


def test_a_position_in_the_topic_of_the_view(make_stage: MakeStage, serve: Serve):
    stage = make_stage()
    site = serve()
    (written,) = stage.put({"url": "/a", "views": 1})
    refused = site.get("/views/pages/%2Fa", {"at_least": written, "wait": "50ms"})
    assert (refused.status, refused.json["code"]) == (409, "HR-509")
    stage.apply()
    assert site.get("/views/pages/%2Fa", {"at_least": written}).json["row"]["views"] == 1


def test_a_position_of_elsewhere_is_refused(connection: Connection, app: str, make_stage: MakeStage, serve: Serve):
    stage, events, _ = made(connection, app, make_stage)
    stage.apply()
    answer = serve().get("/views/pages", {"at_least": "elsewhere[0]@0"})
    assert (answer.status, answer.json["code"]) == (400, "HR-508")
    assert events in answer.json["fix"]
