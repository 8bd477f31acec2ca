"""Widgets: each paints one slice of a snapshot, and refreshes only the lines that differ.

`painted` is the base of all, and shows what a function draws; `cursored`, `listing` and `table` are the base of those
with a cursor. All screens have `keys_line`, the overview `device_list`, `process_table` and `filter_line`; others have
`page` or `blocks`, the attach screens those in `attach`. What a line looks like is decided in `ui.drawing`.
"""
