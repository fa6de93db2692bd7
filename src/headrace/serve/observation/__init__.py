"""What is known of a running app, for the console and for /metrics; `headrace status` uses a part of it.

observer         everything that is gathered in the background, a thread for each source
progress_files   from the files that the processes of the app write, read as they grow
history          one query or follower: its last event, and its last minutes
topics           from Kafka: how far the topics are, and how fast they grow
summary          how each query is doing in one line, and all of them in one sentence
tail             the records of a topic as they come, shared by all who look
rows             the rows of a view as they are now, shared by all who look

It reads what processes write (progress files, the catalogue, topics) and never needs to be in the process of the
engine. What it keeps is bounded, so a page may stay open for days. Nothing here draws.
"""
