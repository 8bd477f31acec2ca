"""What is wrong across many machines, and what nobody tells of them.

`rules` is the table of rules, `thresholds` has its numbers, and `watch` keeps since when each finding has been there;
`missing` says which exporter tells what.
"""
