"""A recorded step: which blocks were alive at each event of an allocator's trace, and what they are for.

`timeline` has births and deaths of blocks, `periods` finds where steps begin, `phases` forward, backward and optimizer,
`kinds` what blocks are for; `step` puts these together. `late`, `layers`, `summary` and `view` show it.
"""
