"""Settings: a typed object, built once from the file, the environment and the flags (the later wins)."""

from gputui.settings.keys import keymap
from gputui.settings.load import add_flags, apply_flags, load_settings
from gputui.settings.settings import KeyChange, Settings

__all__ = ["KeyChange", "Settings", "add_flags", "apply_flags", "keymap", "load_settings"]
