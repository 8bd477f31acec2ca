"""Widgets: each paints one slice of a snapshot, and refreshes only the lines that differ.

`painted` is the base of all, `cursored` and `listing` of those with a cursor. The overview has `status_line`,
`overview_lines`, `device_list`, `process_table`, `graph_band`, `filter_line` and `keys_line`; other screens have `page`
or `blocks`, the attach screens those in `attach`. What a line looks like is decided in `ui.drawing`.
"""
