"""Recordings: what was read of attached processes, kept in a file and replayed.

Written: `recorder` takes messages from the feeds, `records` makes JSON of them, `patch` keeps only what differs from
the message before, `chunks` compresses. Read: `index` finds the chunks, `reader` the records, `bookmarks` where a jump
can begin; `story` makes moments of them and `player` plays these. `shipped` has the demonstration's recordings.
"""
