"""A server that has not started: whether it would, and how many tokens would fit, from its command line and its model.

`command_line` reads the flags, `architecture` the model's sizes; `elements`, `quantization` and `weights` count its
weights, `cache` its keys and values, and `estimates` what a server only knows once it has started, as ranges. `start`
runs the server's arithmetic over them; `refusals` has its errors, `words` what is said.
"""
