"""Findings about live memory: who holds it, and what holds it without being of use.

`holders` is the list of who holds how much, which the verdict begins with. `keepers`, `copies`, `idle` and `views` are
rules.
"""
