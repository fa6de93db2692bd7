"""The console: see the streams move, in a browser, on the same server as the views.

door          who may enter: the link that opens once, the token, the cookie
mount         NiceGUI below /console, with every page
scene         what the pages are about: one app, and what is known of it
watch         what is gathered in the background, a thread a source
trail         from the progress files
levels        from Kafka: how far the topics are, and how fast
tail          the records of a topic as they come, shared by all who look
secret        what is not shown
frame         what every page has
element       the blocks that pages are built of
figure        numbers as people read them
drawing       where the boxes and lines of the lineage stand
live_table    rows that change while they are looked at
records       the records of a stream as such a table
rows          the rows of a view as they are now, shared by all who look
series        what a chart shows of rows
chart         charts that go on
act           something done from a page: asked, written down, told
audit         who did what
replay        a version of a query, built at somebody's wish
state         how much a query remembers
overview, lineage, node, letters, queries, dashboard   the pages

The console reads what processes write (progress files, the catalogue, topics) and never needs to be in the process of
the engine. What it gathers is bounded, so a page may stay open for days.
"""
