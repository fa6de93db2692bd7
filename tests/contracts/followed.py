"""A follower as a process of its own, to be killed: `python -m tests.contracts.followed '<json>'`."""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

from headrace.followers.follower import Follower
from headrace.followers.postgres import PostgresTable
from headrace.followers.store import Store
from headrace.followers.webhook import Target, WebhookReceiver
from headrace.log.catalogue import View
from headrace.log.connection import Connection


def store(given: dict[str, Any]) -> Store:
    connection = Connection(given["bootstrap"])
    view = View(**{**given["view"], "key": tuple(given["view"]["key"]), "path": ()})
    if given["kind"] == "postgres":
        return PostgresTable(given["url"], view, batch=given["batch"])
    target = Target(given["url"], given["secret"], allow_private=True, timeout=3)
    return WebhookReceiver(target, f"{view.app}.{view.view}.webhook", view.topic, connection)


if __name__ == "__main__":
    told = json.loads(sys.argv[1])
    name = f"{told['view']['app']}.{told['view']['view']}"
    print("following", flush=True)
    Follower(name, told["view"]["topic"], store(told), Connection(told["bootstrap"])).run(threading.Event())
