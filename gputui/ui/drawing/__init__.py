"""Drawing: pure functions from model objects and a width to lines of text with roles; no widget, no state."""
