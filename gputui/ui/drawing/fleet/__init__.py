"""A fleet as lines: the columns of GPUs are those of the overview; nodes, clusters and jobs are drawn as GPUs are.

`rows` has the kinds of rows, `tree` which of them lie below which, `columns` draws one, `fields` are what a
filter compares, and `head` is what stands above the table.
"""
