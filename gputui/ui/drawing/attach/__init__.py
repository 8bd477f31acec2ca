"""Drawing of attached processes: pure functions from moments and a width to lines.

A file for each screen (`memory`, `why`, `tensors`, `changes`, `ranks`, `step`, `whatif`; the map is in `map`), `head`
for the lines above all of them, `timeline` for the graph on Memory, `failure` for an out-of-memory error on Why.
"""
