"""An inference server in its own words: how it divides the device, what its cache holds, what other flags would give.

`division` assigns each byte of the device to one part, without memory that is `asleep`. `capacity` is the server's own
arithmetic of blocks, tokens and requests; `asked` reads flags that a user wants to try, `other_flags` computes with
them. `words` makes the lines that are shown. `ahead` is about a server that has not started.
"""
