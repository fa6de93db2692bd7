"""Followers: each applies a topic to a store. What the store must hold comes from the log alone.

change          a record of a view's topic: the row of a key, or its deletion
store           the contract of all stores, and their errors
feed            the topic from given positions on, in batches of what has arrived
follower        the loop: read, apply, wait, write dead letters, go on
pulse           what the loop is doing, and since when
supervisor      all followers of an app, each in a thread of its own
view_follower   a view followed into its table, in the version that is current
postgres        a table with a primary key
webhook         an HTTP receiver that gets every change
address         which addresses may be connected to
signature       the signature of a webhook
"""
