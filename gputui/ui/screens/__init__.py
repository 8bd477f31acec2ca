"""Screens: which widgets they have, and what their keys do.

`overview` is the first (`process_list` has its list's keys), `device`, `process`, `findings`, `signals` and `help` lie
on top of it, and `attach` has those of an attached process. `base` is what all share.
"""
