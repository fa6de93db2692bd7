"""`/metrics`: every documented name, for who has the token, with the numbers that the processes wrote."""

from __future__ import annotations

import http.client
from pathlib import Path
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families
from tests.console.conftest import Site

DOCS = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"


def ask(site: Site, token: str | None) -> tuple[int, str]:
    split = urlsplit(site.url)
    connection = http.client.HTTPConnection(split.hostname or "", split.port, timeout=30)
    connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"} if token else {})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_metrics(site: Site):
    assert ask(site, None)[0] == 401
    assert ask(site, "wrong")[0] == 401
    status, text = ask(site, site.token)
    assert status == 200
    families = {family.name: family for family in text_string_to_metric_families(text)}
    documented = [
        line.split("`")[1] for line in DOCS.read_text(encoding="utf-8").splitlines() if line.startswith("| `headrace_")
    ]
    exposed = [family.name + ("_total" if family.type == "counter" else "") for family in families.values()]
    assert sorted(exposed) == sorted(documented)
    up = {sample.labels["query"]: sample.value for sample in families["headrace_query_up"].samples}
    assert up["visits"] == 1
    assert families["headrace_log_up"].samples[0].value == 1
    (rows,) = [one for one in families["headrace_query_rows"].samples if one.labels["query"] == "visits"]
    assert (rows.labels["app"], rows.labels["mode"]) == ("shop", "live")
    assert rows.value > 0
    offsets = {(s.labels["topic"], s.labels["partition"]): s.value for s in families["headrace_topic_offset"].samples}
    assert offsets["clicks", "0"] > 0
