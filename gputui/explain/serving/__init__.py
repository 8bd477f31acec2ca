"""An inference server in its own words: how it divides the device, what its cache holds, what other flags would give.

`division` has each byte of the device once, without what is `asleep`. `capacity` is the server's own arithmetic of
blocks, tokens and requests; `other_flags` runs it again with other values. `words` makes the lines that are shown.
`ahead` is about a server that has not started.
"""
