"""The names of gputui's own environment variables. The probe imports this file too, so it imports nothing."""

PREFIX = "GPUTUI_"

CONFIG = "GPUTUI_CONFIG"
PROBE = "GPUTUI_PROBE"
PROBE_ACTS = "GPUTUI_PROBE_ACTS"
BLACK_BOX = "GPUTUI_BLACK_BOX"
MEMORY_HISTORY = "GPUTUI_MEMORY_HISTORY"

OF_NO_SETTING = {
    CONFIG: "the path of another settings file",
    PROBE: "0 in a program's environment keeps the probe out of it",
    PROBE_ACTS: "0 in a program's environment makes its probe refuse every action",
    BLACK_BOX: "the folder in which a program's probe keeps what held the GPU memory at out-of-memory errors",
    MEMORY_HISTORY: "1 in a program's environment has black boxes hold the last steps before the error, too",
}
"""Name and meaning of the variables that stand for no setting. `settings.table.VARIABLES` lists all variables."""


def of_setting(name: str) -> str:
    """The variable of a setting, by the setting's name in the file: interval is GPUTUI_INTERVAL."""
    return PREFIX + name.upper()
