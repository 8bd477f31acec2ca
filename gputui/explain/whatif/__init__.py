"""What would have been reserved under other settings: a model of the allocator, and a trace replayed through it.

`trace`: what the program asked for; `allocator`: the model; `replay`: the one run through the other. `cases` puts these
together for each line of a what-if, `changes` makes the trace of a changed program, `by_hand` reads what the user
types, `ahead` is for a training that has not run; `words`, `view` and `advice` are what is said and shown of it.
"""
