"""The screens: the only part of gputui that knows Textual; its `drawing`, which what is printed shares, does not."""
