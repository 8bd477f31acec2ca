"""Findings about the machine: snapshots come in, findings with evidence and remedies go out.

`watch` asks the rules and keeps since when each sign has been seen; `rules` is their table, `thresholds` has numbers.
The rules are about devices that fail (`health`), do nothing (`working`) or wait for data (`input`), about `processes`
that should not be there, and about what runs out on the `host`; `xids` says what the driver's errors mean. `scene` is
what a rule gets, `record` decides which readings the history keeps.
"""
