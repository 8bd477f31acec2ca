"""Screens: which widgets they have, and what their keys do.

`overview` is the first (`table`, `process_list`: its list's keys); `device`, `process`, `findings`, `collectives`,
`past` and `help` lie on top; `signals` has questions. `attach`: attached processes; `fleet`: nodes; `base`: for all.
"""
