"""Findings about many machines, and which figures about them no exporter has.

`rules` is the table of rules, `thresholds` has its numbers, `watch` keeps since when each finding has been there,
`missing` says what would export a figure; `gathering` makes a fleet of what nodes tell over ssh, `sums` adds nodes up.
"""
