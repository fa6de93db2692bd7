"""An address in the settings: a server that Headrace uses, and neither starts nor stops.

Before a run begins the server is asked for an answer, for a bounded time, so that a wrong address or password is an
error at once and not a client that retries in silence. No error shows a password.
"""

from __future__ import annotations

import time
from typing import Any

import psycopg
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from psycopg.conninfo import conninfo_to_dict

from headrace.errors import PartError

SECONDS = 10.0


def require_kafka(bootstrap: str, options: dict[str, str], seconds: float = SECONDS) -> None:
    """Raise unless a broker answers; `options` are the client options of the settings."""
    said: list[KafkaError] = []
    try:
        given: dict[str, Any] = {**options, "bootstrap.servers": bootstrap, "log_level": 0, "error_cb": said.append}
        client = AdminClient(given)
    except (KafkaException, TypeError, ValueError) as error:
        raise PartError(
            "HR-113",
            f"The Kafka client does not take the options given for {bootstrap}.",
            found=_reason(error),
            fix="correct the option in the [kafka] table of headrace.toml or in HEADRACE_KAFKA__…; the names are"
            " those of librdkafka",
        ) from None
    deadline = time.monotonic() + seconds
    while True:
        try:
            client.list_topics(timeout=min(1.0, seconds))
        except KafkaException as error:
            client.poll(0)  # hands over what went wrong underneath
            refused = [e for e in said if e.code() == KafkaError._AUTHENTICATION]
            if refused or time.monotonic() >= deadline:
                raise PartError(
                    "HR-109",
                    f"No Kafka broker answers at {bootstrap}.",
                    found=(refused or [e for e in said if e.code() != KafkaError._ALL_BROKERS_DOWN] or error.args)[
                        -1
                    ].str(),
                    fix="start the broker or correct `bootstrap` and the [kafka] options in the settings; without"
                    " `bootstrap` an embedded Kafka is used",
                ) from None
        else:
            return


def require_postgres(url: str, seconds: float = SECONDS) -> None:
    """Raise unless the server lets us in."""
    try:
        psycopg.connect(url, connect_timeout=max(2, round(seconds))).close()
    except psycopg.ProgrammingError:
        raise PartError(
            "HR-110",
            "The PostgreSQL address cannot be read.",
            found="a text that is neither a URL nor a list of key=value",
            fix="write it as postgresql://user:password@host:port/database",
        ) from None
    except psycopg.OperationalError as error:
        raise PartError(
            "HR-110",
            f"PostgreSQL does not let us in at {describe_postgres(url)}.",
            found=_without_password(str(error), url),
            fix="start the server or correct `postgres` in the settings; without it an embedded PostgreSQL is used",
        ) from None


def describe_postgres(url: str) -> str:
    """`user@host:port/database` of a PostgreSQL address, without the password."""
    try:
        given = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    except psycopg.ProgrammingError:
        return "an address that cannot be read"
    user = f"{given['user']}@" if "user" in given else ""
    database = given.get("dbname", given.get("user", ""))
    return f"{user}{given.get('host', 'localhost')}:{given.get('port', '5432')}/{database}"


def _without_password(text: str, url: str) -> str:
    password = conninfo_to_dict(url).get("password")
    return text.replace(str(password), "…") if password else text


def _reason(error: Exception) -> str:
    first = error.args[0] if error.args else error
    return first.str() if isinstance(first, KafkaError) else str(first)
