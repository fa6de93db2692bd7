"""The console: see the streams move, in a browser, on the same server as the views.

door          who may enter: the link that opens once, the token, the cookie
mount         NiceGUI below /console, with every page
backend       what the pages read and act through: one app
secret        what is not shown
frame         what every page has
element       the blocks that pages are built of
figure        numbers as people read them
drawing       where the boxes and lines of the lineage stand
live_table    rows that change while they are looked at
records       the records of a stream as such a table
series        what a chart shows of rows
chart         charts that go on
act           something done from a page: asked, written down, told
audit         who did what
replay        a version of a query, built when somebody asks for it
state         how much a query remembers
overview, lineage, node, letters, queries, dashboard   the pages

Pages draw what is gathered beside them all the time (observation/), so the console need not be in the process of the
engine. A page asks for itself only what is needed while it is open: a checkpoint, letters, the lateness of a stream.
"""
