"""The command `headrace`, one file a group of commands.

terminal     what is printed, and how it is made harmless
place        whose settings hold, which app is meant, which Kafka is talked to
ending       how a command comes to its end: after a time
logs         the form of what long-running commands tell
argument     arguments that many commands have
new          new: a directory with an app to begin with
setup        setup: what the first run would fetch and make
check        check: what is wrong with an app and its functions
declaration  graph, explain
parts        parts up|down|status|env
run          run: the queries of an app
dev          dev: all of an app, on this machine
follow       follow: tables and webhooks kept at what the log says
capture      capture: what PostgreSQL commits, written to the log
slot         slot ls|drop: the replication slots of the database
status       status, and the health of a query in one word
state        state: what the operators of the queries remember
lateness     lateness: how late events come, and which delay covers how many
certify      certify: kill an app again and again, and hold its outputs against the batch answer
console      console: an app in the browser, wherever its queries run
serve        serve: the views of an app over HTTP, and its console
replay       replay: a version of a view or stream built from history, beside the current one
promote      promote: a version becomes the current one, or an old one again
versions     versions ls|drop
table        the PostgreSQL tables of versions
doctor       doctor: what ails an app, with the evidence and the remedy, and repairs after asking
record       a record of the log as text and as JSON
topic        topic ls|describe|tail|produce
dead         dead ls|show|replay
command      all of them
entry        what holds for all of them: errors and exit codes; where the process begins

Exit codes: 0 fine; 1 an error of Headrace, with its text on standard error; 2 a command that was not understood; 130
interrupted. Results go to standard output, everything else to standard error.
"""

from headrace.cli.entry import main

__all__ = ["main"]
