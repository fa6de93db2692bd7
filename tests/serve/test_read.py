"""Point reads and lists: filters of every type, order, pages, keys, and what is refused."""

from __future__ import annotations

import base64
import json
import random
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from psycopg import sql
from tests.serve.conftest import TOKEN, MakeStage, Serve, running
from tests.serve.stage import Stage, texts

from headrace.log.connection import Connection
from headrace.serve import filter as filters
from headrace.serve import view_table
from headrace.serve.guard import Rules
from headrace.serve.view import View

EVERY = (
    "id int NOT NULL, b boolean, t tinyint, s smallint, i int, l bigint, f float, d double, m decimal(12,3), x string,"
    ' y binary, a date, z timestamp, n timestamp_ntz, `odd "name%s` string, r array<int>, o struct<p:int,q:string>,'
    " k map<string,double>"
)
TEXTS = ["", "a", "B", "ä", "z", "日本", "😀", '"; DROP TABLE', "a'b", "%", "_", "<b>", "a,b", " a ", "null"]
ODD = 'odd "name%s'


def drawn(chance: random.Random, number: int) -> dict[str, Any]:
    """A row with every type, each value sometimes null."""

    def one(value: Any) -> Any:
        return None if chance.random() < 0.15 else value

    real = chance.choice([0.0, -1.5, 0.1, 3.25, 1e10, "NaN", "Infinity", "-Infinity", round(chance.uniform(-9, 9), 3)])
    second = f"{chance.randrange(60):02}.{chance.choice([0, 1, 500_000, 999_999]):06}"
    return {
        "id": number,
        "b": one(chance.random() < 0.5),
        "t": one(chance.randrange(-128, 128)),
        "s": one(chance.choice([-32768, 0, 7, 32767])),
        "i": one(chance.choice([-(2**31), 0, 5, 2**31 - 1])),
        "l": one(chance.choice([-(2**63), 0, 2**53 + 1, 2**63 - 1])),
        "f": one(chance.choice([0.1, 1.5, -2.25, "NaN", "Infinity", 16777216.0])),
        "d": one(real),
        "m": one(chance.choice([0.125, -1.5, 12345.678, 7.0])),
        "x": one(chance.choice(TEXTS)),
        "y": one(base64.b64encode(chance.choice([b"", b"\0", b"ab", b"\xff" * 90])).decode()),
        "a": one(f"20{chance.randrange(20, 30)}-0{chance.randrange(1, 10)}-11"),
        "z": one(f"2026-03-01T12:{chance.randrange(60):02}:{second}Z"),
        "n": one(f"2026-03-01T12:{chance.randrange(60):02}:{second}"),
        ODD: one(chance.choice(TEXTS)),
        "r": one([1, None, 3]),
        "o": one({"p": 1, "q": "x"}),
        "k": one({"a": 1.5, "b": None}),
    }


@pytest.fixture
def every(make_stage: MakeStage) -> Stage:
    stage = make_stage("every", EVERY, ("id",))
    chance = random.Random(7)
    stage.put(*(drawn(chance, number) for number in range(200)))
    stage.apply()
    return stage


def test_rows_are_as_in_the_topic(make_stage: MakeStage, serve: Serve):
    stage = make_stage("every", EVERY, ("id",))
    rows = [drawn(random.Random(seed), seed) for seed in range(50)]
    stage.put(*rows)
    stage.apply()
    assert texts(serve().rows("every", limit=1000)) == texts(rows)


def test_a_filter_means_the_same_in_sql_and_for_a_change(every: Stage, serve: Serve):
    """The table chooses by SQL and a subscription by Python: both, and every type, against each other."""
    site = serve()
    rows = site.rows("every", limit=1000)
    view = View.of(every.view)
    chance = random.Random(seed := random.randrange(10**6))
    print(f"seed {seed}")
    for column in [one for one in view.columns if one.comparable]:
        for sign in filters.OPERATORS:
            if sign == "prefix" and column.type != "string":
                continue
            value = next(v for _ in range(100) if (v := chance.choice(rows)[column.name]) is not None)
            text = json.dumps(value) if isinstance(value, bool) else str(value)
            if sign == "null":
                text = chance.choice(["true", "false"])
            elif sign == "in":
                several = [row[column.name] for row in chance.sample(rows, 3) if row[column.name] is not None]
                text = json.dumps([one if not isinstance(one, bool) else json.dumps(one) for one in several] or [text])
            query = [(f"{column.name}.{sign}", text)]
            chosen = filters.parse(view.columns, query, ())
            wanted = [row for row in rows if chosen.holds(row)]
            answer = site.get("/views/every", [*query, ("limit", "1000")])
            assert answer.status == 200, (query, answer.text)
            assert texts(answer.json["rows"]) == texts(wanted), query


def test_conditions_are_all_to_be_met(every: Stage, serve: Serve):
    site = serve()
    rows = site.rows("every", limit=1000)
    found = site.get("/views/every", [("id.gte", "10"), ("id.lt", "100"), ("x.null", "false"), ("limit", "1000")]).json
    assert texts(found["rows"]) == texts(row for row in rows if 10 <= row["id"] < 100 and row["x"] is not None)


def test_pages_are_the_whole_in_order(every: Stage, serve: Serve):
    site = serve()
    for order in ("", "x", "-x", "d,-x", "-z,b", "b,-l,m", f"-{ODD}", "y,a", "-f", "n"):
        query = {"order": order} if order else {}
        whole = site.rows("every", **query, limit=1000)
        assert len(whole) == 200
        paged, after = [], None
        while not paged or after is not None:
            page = site.get("/views/every", query | {"limit": 33} | ({"after": after} if after else {})).json
            paged += page["rows"]
            after = page["next"]
        assert paged == whole, order
        if order == "x":
            found = [row["x"] for row in whole]
            assert found == sorted(found, key=lambda text: (text is None, text or ""))


def test_a_row_by_its_key(make_stage: MakeStage, serve: Serve):
    pages = make_stage()
    both = make_stage("minutes", "url string NOT NULL, start timestamp NOT NULL, n int", ("url", "start"))
    keys = ["/a", "a b", 'x"; DROP TABLE pages; --', "<script>", "ä/ö", "changes", '{"url":1}', "50%", "."]
    pages.put(*({"url": key, "views": number} for number, key in enumerate(keys)))
    both.put({"url": "/a/b", "start": "2026-03-01T12:00:00.000000Z", "n": 5})
    pages.apply()
    both.apply()
    site = serve()
    for number, key in enumerate(keys):
        path = quote(json.dumps({"url": key}) if key == "changes" else key, safe="")
        found = site.get(f"/views/pages/{path}")
        assert found.status == 200, (key, found.text)
        assert (found.json["row"]["url"], found.json["row"]["views"]) == (key, number)
        assert found.headers["content-type"] == "application/json"
    assert site.get("/views/pages//a").json["row"]["url"] == "/a"
    for path in ("%2Fa%2Fb/2026-03-01T12:00:00Z", "%2Fa%2Fb/2026-03-01T13:00:00%2B01:00"):
        assert site.get(f"/views/minutes/{path}").json["row"]["n"] == 5
    as_json = quote('{"start":"2026-03-01T12:00:00Z","url":"/a/b"}', safe="")
    assert site.get(f"/views/minutes/{as_json}").json["row"]["n"] == 5
    assert problem(site.get("/views/pages/nobody")) == (404, "HR-502")
    assert problem(site.get("/views/minutes/onlyone")) == (400, "HR-506")
    assert problem(site.get("/views/minutes/a/yesterday")) == (400, "HR-504")
    assert problem(site.get("/views/pages/%ff")) == (400, "HR-505")


def problem(answer: Any) -> tuple[int, str]:
    found = answer.json
    assert answer.headers["content-type"] == "application/problem+json"
    assert all(found[one] for one in ("what", "fix", "title"))
    assert found["status"] == answer.status
    return answer.status, found["code"]


WRONG: list[tuple[Any, str]] = [
    ({"nothing": "1"}, "HR-503"),
    ({'url"; DROP TABLE pages; --': "1"}, "HR-503"),
    ({"views.about": "1"}, "HR-503"),
    ({"views.prefix": "1"}, "HR-503"),
    ({"order": 'url"; DROP TABLE pages; --'}, "HR-503"),
    ({"order": "url,url"}, "HR-505"),
    ({"views": "ten"}, "HR-504"),
    ({"views": "1; DROP TABLE pages"}, "HR-504"),
    ({"views.gte": str(2**63)}, "HR-504"),
    ({"views": "1_0"}, "HR-504"),
    ({"ratio": "1e999"}, "HR-504"),
    ({"at": "2026-03-01T12:00:00"}, "HR-504"),
    ({"at": "now()"}, "HR-504"),
    ({"url": "a\0b"}, "HR-504"),
    ({"url.null": "maybe"}, "HR-504"),
    ({"views.in": "[1,[2]]"}, "HR-504"),
    ({"limit": "0"}, "HR-505"),
    ({"limit": "10001"}, "HR-505"),
    ({"limit": "-1"}, "HR-505"),
    ({"limit": "1; DROP TABLE pages"}, "HR-505"),
    ({"after": "bogus"}, "HR-505"),
    ({"after": "W10"}, "HR-505"),
    ({"wait": "31"}, "HR-505"),
    ({"wait": "soon"}, "HR-505"),
    ({"at_least": "somewhere"}, "HR-507"),
    ({"at_least": "elsewhere[0]@1"}, "HR-508"),
    ([("limit", "1"), ("limit", "2")], "HR-505"),
    ([("views.gte", "1")] * 51, "HR-505"),
]


def test_what_cannot_be_understood_is_said(make_stage: MakeStage, serve: Serve):
    stage = make_stage()
    stage.put({"url": "/a", "views": 1})
    stage.apply()
    site = serve()
    for query, code in WRONG:
        assert problem(site.get("/views/pages", query)) == (400, code), query
    assert len(stage.rows()) == 1


def test_what_is_not_there_is_said(make_stage: MakeStage, serve: Serve):
    stage = make_stage()
    site = serve()
    assert problem(site.get("/views/pagse")) == (404, "HR-501")
    assert "did you mean `pages`" in site.get("/views/pagse").json["fix"]
    assert problem(site.get("/nothing")) == (404, "HR-519")
    assert problem(site.get("/views", method="DELETE"))[1] == "HR-519"
    assert site.get("/views", method="DELETE").status == 405
    with psycopg.connect(stage.url) as connection:
        connection.execute(sql.SQL("DROP TABLE {}").format(stage.table))
    assert problem(site.get("/views/pages")) == (503, "HR-513")
    assert problem(site.get("/views/pages/changes")) == (503, "HR-513")


def test_a_database_that_is_away_is_said(
    make_stage: MakeStage, connection: Connection, app: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(view_table, "WAIT_S", 0.2)
    make_stage()
    with running(app, connection, "postgresql://somebody:secret@127.0.0.1:1/nothing", Rules(TOKEN)) as site:
        for path in ("/views", "/views/pages", "/views/pages/a", "/views/pages/changes"):
            answer = site.get(path)
            assert problem(answer) == (503, "HR-514")
            assert "secret" not in answer.text


def test_the_list_and_the_description(make_stage: MakeStage, serve: Serve, app: str):
    stage = make_stage("every", EVERY, ("id",))
    stage.put(drawn(random.Random(1), 1))
    stage.apply()
    site = serve()
    (found,) = site.get("/views").json["views"]
    assert (found["name"], found["key"], found["topic"]) == ("every", ["id"], f"{app}.every")
    assert [one["name"] for one in found["columns"]] == [one.name for one in View.of(stage.view).columns]
    assert sum(one["next_offset"] for one in found["positions"]) == 1
    described = site.get("/openapi.json").json
    assert set(described["paths"]) == {"/views", "/views/every", "/views/every/changes", "/views/every/{id}"}
    properties = described["components"]["schemas"]["every"]["properties"]
    assert properties["z"]["format"] == "date-time"
    assert properties["l"]["type"] == ["integer", "null"]
    assert properties["id"]["type"] == "integer"
