"""What PyTorch would have reserved under other settings: a trace replayed through a model of the allocator.

`trace` reads a program's requests out of a trace, `allocator` is the model, `replay` runs the requests through it.
`cases` answers the cases of a what-if, `changes` makes the requests of a changed program, `by_hand` reads a case that
the user types, `ahead` starts from a training that has not run; `words`, `view` and `advice` show the answers.
"""
