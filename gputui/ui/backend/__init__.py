"""Everything of gputui that relies on the inside of Textual, and the first frame, which is drawn without it."""
