"""Findings about live memory: who holds it, and what holds memory that is of no use.

`holders` lists who holds how much, for the verdict and the rules; `folded` joins holders with similar names.
`keepers`, `copies`, `idle` and `views` are rules.
"""
