"""The viewer's end of the probe: finding probes, talking to them, and turning their messages into the model."""
