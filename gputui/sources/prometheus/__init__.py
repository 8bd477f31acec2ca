"""A fleet as one Prometheus knows it: a thread of its own asks the server, and only for what is on screen.

`metrics` is the table of exporters' names, from which `expressions` makes queries; `questions` are what is asked, and
`suspicions` what is asked for findings. `access` has address and credentials, `client` the connection with its bounds,
`decode` its answers, from which `answers` makes parts of a fleet. `reader` asks one question after the other, and
`machine` has the results for the sampler.
"""
