"""The viewer's end of the probe: finding probes, talking to one, and turning what it says into the model."""
