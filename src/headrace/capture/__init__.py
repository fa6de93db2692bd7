"""Capture: what PostgreSQL commits, as topics of the log.

lsn           places in the write-ahead log
database      connections to the source, and what its errors mean
prerequisites what the server and the role must have, with the SQL to run where something is missing
table         what is captured: tables and outboxes, as declared and as the database has them
publication   which tables the server publishes
slot          the replication slot: its making, its end, its health
stream        the slot's messages, and the confirmations that let the server forget
pgoutput      the messages, decoded
value         a value in PostgreSQL's text form as JSON
relation      the rows of a table as JSON, by the columns that the stream announced
difference    what has changed in a table's columns, and whether that can be followed
envelope      a change in Debezium's form
outbox        a row of an outbox as the event that it holds
kinds         how the values of each type are written, and the type of a schema that holds them
columns       the columns of a table as a schema, and whether declared ones can be read
snapshot      the rows that were there before
present       the keys that a topic holds
state         what capture remembers, in the log
writer        Kafka transactions
live          the tables while they are captured
changes       the changes of a transaction as records
ranges        which rows are read when
session       from the moment that database and log answer to the moment that one of them does not
capture       sessions one after the other, for an app

A change is written to Kafka in a transaction that also says how far the write-ahead log has been read; only then is the
slot told that it may forget. So whatever ends this process, the next one goes on after the last transaction that was
written, and none is written twice.
"""
