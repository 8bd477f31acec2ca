"""The screens: the only part of gputui that knows Textual."""
