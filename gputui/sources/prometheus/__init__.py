"""A fleet, as a Prometheus tells of it: one server is asked, in a thread of its own, and only for what is on screen.

`metrics` is the table of exporters' names, `expressions` makes queries of it, and `questions` is what is asked.
`access` has address and credentials, `client` the connection with its bounds, and `decode` its answers. `answers` makes
parts of a fleet of them, `reader` asks one question after the other, and `machine` is what the sampler looks at.
"""
