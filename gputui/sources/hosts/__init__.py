"""A fleet without a server: the user's ssh runs gputui on each node, which prints a document at each look.

`names` reads the nodes' names from the command line, `connection` is one ssh, `looks` makes parts of a fleet from a
document, `line` keeps a connection to one node alive in a thread, `machine` has all of them for the sampler.
"""
