"""Widgets: each paints one slice of a snapshot, and refreshes only the lines that differ.

`painted` is the base of all, and shows what a function draws; `cursored`, `listing` and `table` are the base of those
with a cursor. All screens have `keys_line`, the overview `device_list`, `process_table` and `filter_line`; others have
`page`, `blocks` or `fleet_table`, the attach screens those in `attach`. `ui.drawing` decides what a line looks like.
"""
