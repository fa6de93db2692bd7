"""Views over HTTP: point reads, filtered lists, and subscriptions that begin with a snapshot and miss nothing.

problem       an error as an answer: code, what, found, fix
guard         who may ask: token, Host and Origin
token         the bearer token, made once and kept beside the app
statement     a piece of SQL with the values that it binds
column        the values of a column: as text, as JSON, in SQL, and how they compare
filter        which rows are asked for, in SQL and for a row of the topic
page          in which order, how many, and where the last page ended
positions     how far a reader is, as one compact token
view          a view of the catalogue with its columns; the views of an app
broker        what Kafka knows about topics and groups
view_table    snapshots and point reads from PostgreSQL
change        a record of a view's topic as a change
event         what a subscriber is told
feed          the changes of one view, read once and shared by all who subscribe
subscription  one client: snapshot, what it missed, then what comes
stream        the events of a subscription as server-sent events and over a WebSocket
passage       whether a view has passed the position of a write
openapi       the description of all this for machines
api           the routes of the views
site          all that one server has, behind the guard
observation   what is known of a running app, gathered in the background
metrics       how the app is doing, for Prometheus
console       see the streams move, in a browser
server        the process: sockets, signals, a clean stop

Snapshots come from PostgreSQL and changes from the log: a snapshot is read together with the positions that it holds,
in one transaction, and the changes go on from exactly there.
"""
