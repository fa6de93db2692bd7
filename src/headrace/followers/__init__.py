"""Followers: they apply a topic to a store, and nothing but the log tells them what the store must hold.

change     a record of a view's topic: the row that holds, or its end
store      what a store must do; the errors with which it speaks
feed       the topic from given positions on, in batches of what has arrived
follower   the loop: reads, applies, waits, buries, goes on
postgres   a table with a primary key
webhook    an HTTP receiver that is told of every change
"""
