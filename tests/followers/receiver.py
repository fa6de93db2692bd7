"""A receiver of webhooks as a process of its own: `python -m tests.followers.receiver PORT FILE [SECRET]`.

It remembers what it took in the file, line by line, before it answers; a later one with the same file goes on from
there. `GET /state` tells the rows by key, how many requests came, how many were repeats, and what was out of order. A
row with the field `answer` is answered with that status, `{"answer": 503, "times": 2}` only so often.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from headrace.followers.signature import HEADER, verify


class State:
    """What was taken."""

    def __init__(self, file: Path, secret: str | None) -> None:
        self.lock = threading.Lock()
        self.secret = secret
        self.rows: dict[str, dict[str, Any]] = {}
        self.seen: set[str] = set()
        self.last: dict[tuple[str, str], int] = {}
        self.told: Counter[str] = Counter()
        self.disorder: list[str] = []
        if file.exists():
            for line in file.read_text(encoding="utf-8").splitlines():
                self._apply(*json.loads(line))
        self.file = file.open("a", encoding="utf-8")

    def take(self, follower: str, key: str, body: dict[str, Any]) -> int:
        row = body["row"] or {}
        with self.lock:
            self.told["requests"] += 1
            if "answer" in row and self.told[key] < row.get("times", sys.maxsize):
                self.told[key] += 1
                return row["answer"]
            if key in self.seen:
                self.told["repeats"] += 1
                return 200
            self.file.write(json.dumps([follower, key, body]) + "\n")
            self.file.flush()
            self._apply(follower, key, body)
        return 200

    def _apply(self, follower: str, key: str, body: dict[str, Any]) -> None:
        self.seen.add(key)
        rows = self.rows.setdefault(follower, {})
        rows.pop(body["key"], None)
        if body["row"] is not None:
            rows[body["key"]] = body["row"]
        place, offset = body["position"].split("@")
        if self.last.get((place, body["key"]), -1) > int(offset):
            self.disorder.append(body["position"])
        self.last[place, body["key"]] = int(offset)


def main(port: int, file: Path, secret: str | None) -> None:
    state = State(file, secret)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            with state.lock:
                told = {"rows": state.rows, "disorder": state.disorder, **state.told}
                self._answer(200, json.dumps(told).encode())

        def do_DELETE(self) -> None:
            with state.lock:
                state.file.truncate(0)
                state.rows.clear()
                state.seen.clear()
                state.last.clear()
            self._answer(200, b"")

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            if state.secret is not None and not verify(state.secret, self.headers.get(HEADER, ""), raw):
                self._answer(401, b"the signature is wrong")
                return
            body = json.loads(raw)
            assert self.headers["Idempotency-Key"] == body["id"]
            self._answer(state.take(body["follower"], body["id"], body), b"")

        def _answer(self, status: int, said: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(said)))
            if status == 301:
                self.send_header("Location", "/elsewhere")
            if status == 429:
                self.send_header("Retry-After", "1")
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in the base
            return

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None)
