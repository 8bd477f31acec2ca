"""Drawing: pure functions from model objects and a width to lines of text with roles; no widget, no state.

`line`, `meters`, `graphs`, `columns` and `entries` are what all use; `appearance`: glyphs and roles. `monitor`: the
overview and the pages of a device and a process; `attach`: the screens of an attached process; `attach/map`: segments
and blocks. What is printed is drawn here, too: nothing here knows Textual.
"""
