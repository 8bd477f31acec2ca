"""The screens: the only part of gputui that imports Textual. Its `drawing`, which printed text shares, does not."""
