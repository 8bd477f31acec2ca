"""A server that has not started: whether it would, and how many tokens would fit, from its command line and its model.

`command_line` reads the flags, `defaults` has the others' values, `architecture` the model's sizes. `elements`,
`quantization` and `weights` count the bytes of weights, `cache` those of keys and values; `estimates` has ranges for
what a server measures when it starts. `start` is the server's arithmetic, `refusals` has its errors, `words` sentences.
"""
