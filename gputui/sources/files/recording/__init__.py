"""Recordings: what was read of attached processes, kept in a file and replayed.

To write, `recorder` takes messages from the feeds, `records` makes JSON of them, `patch` keeps of a look only what
differs from the look before, `chunks` compresses. To read, `index` finds the chunks and `reader` their records; `story`
makes moments of these, and `player` plays them; `bookmarks` are places at which a jump can begin. `shipped` has the
demonstration's recordings.
"""
