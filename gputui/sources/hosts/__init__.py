"""A fleet without a server: the user's ssh runs gputui on each node, which says at each look what it has read.

`names` makes nodes of what the command line says, `connection` is one ssh, `looks` makes parts of a fleet of a node's
document, and `machine` keeps a connection to each node and is what the sampler looks at.
"""
