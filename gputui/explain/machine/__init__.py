"""Findings about the machine: snapshots come in, findings with evidence and remedies go out.

`watch` asks the rules and keeps since when each sign has been seen; `rules` is their table, `thresholds` has numbers.
`health` is about what fails, `working` about what does nothing, `input` about what waits for data, `processes` about
who should not be there, `host` about what runs out; `xids` says what the driver's errors mean. `scene` is what a rule
gets, `record` what the history keeps.
"""
