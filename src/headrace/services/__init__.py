"""The long-running services of an app, as library calls; the commands of the same names parse, call and print.

    from headrace.services import dev

    with dev(Path("app.py")) as running:
        running.wait(60)

background    what runs in threads of this process and tells how it does: the base of capture and followers
capture       what PostgreSQL commits, written to the log
followers     the tables of the views and the webhooks, kept at what the log says
queries       the queries of an app, checked before anything else starts
site          the views over HTTP, and the console
development   all of them together, for one machine
servers       the Kafka and the PostgreSQL that they need
loading       the app in a file, as every command loads it
stop          how what runs is asked to end

They tell what happens through structlog; who configures it decides on the form (cli/logs.py does for the commands).
"""

from headrace.services.development import Development, dev

__all__ = ["Development", "dev"]
