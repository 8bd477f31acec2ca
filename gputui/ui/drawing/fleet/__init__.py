"""A fleet as lines: the columns of GPUs are those of the overview, and a node, a cluster or a job is drawn as a GPU is.

`rows` makes rows of a fleet and a view, `tree` which of them lie below which, `columns` draws a row, `fields` are what a
filter compares, and `head` is what stands above the table.
"""
