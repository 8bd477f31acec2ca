"""Settings from file, environment and flags, in that order; errors name the file and line, or the variable."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from gputui.errors import UsageError
from gputui.protocol import pauses
from gputui.settings import KeyChange, Settings, add_flags, apply_flags, forms, keymap, load_settings
from gputui.settings.file import settings_path
from gputui.settings.settings import THEMES
from gputui.settings.table import SETTINGS
from gputui.ui.app import GputuiApp
from gputui.ui.bindings import key_name
from gputui.ui.screens.help import default_keys, scopes


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def load(file: Path, text: str | None = None, **environment: str) -> Settings:
    if text is not None:
        file.write_text(text)
    return load_settings({"GPUTUI_CONFIG": str(file), **environment})


def flagged(settings: Settings, *flags: str) -> Settings:
    parser = argparse.ArgumentParser()
    add_flags(parser)
    return apply_flags(settings, parser.parse_args(flags))


def test_every_settings_field_is_declared_exactly_once() -> None:
    assert [setting.field for setting in SETTINGS] == [field for field in Settings._fields if field != "keys"]


def test_without_a_file_and_variables_the_defaults_apply(tmp_path: Path) -> None:
    assert load_settings({"XDG_CONFIG_HOME": str(tmp_path)}) == Settings()


def test_flags_override_variables_which_override_the_file(file: Path) -> None:
    settings = load(file, 'interval = 5\ntheme = "nord"\nascii = true\n', GPUTUI_INTERVAL="3", GPUTUI_THEME="dracula")
    settings = flagged(settings, "--interval", "500ms")
    assert (settings.interval_s, settings.theme, settings.ascii) == (0.5, "dracula", True)


@pytest.mark.parametrize(("text", "pause_s"), [("5ms", 0.005), ("0.1", 0.1), ("off", None)])
def test_the_pause_of_automatic_looks_is_a_time_or_off(text: str, pause_s: float | None) -> None:
    assert flagged(Settings(), "--pause", text).look_pause_s == pause_s


def test_the_pauses_are_those_that_viewer_and_probe_agree_on() -> None:
    limits = (forms.SHORTEST_PAUSE_S, Settings().look_pause_s, forms.LONGEST_PAUSE_S)
    assert limits == (pauses.SHORTEST_S, pauses.AUTOMATIC_S, pauses.LONGEST_S)


def test_a_flag_can_turn_a_setting_off() -> None:
    assert flagged(Settings(), "--no-mouse").mouse is False
    assert flagged(Settings()).mouse is True


@pytest.mark.parametrize(
    ("environment", "color"),
    [
        pytest.param({"NO_COLOR": "1"}, "none", id="NO_COLOR"),
        pytest.param({"NO_COLOR": ""}, "auto", id="empty NO_COLOR means nothing"),
        pytest.param({"NO_COLOR": "1", "GPUTUI_COLOR": "256"}, "256", id="the more specific variable wins"),
    ],
)
def test_no_color_is_respected(file: Path, environment: Mapping[str, str], color: str) -> None:
    assert load(file, "", **environment).color == color


@pytest.mark.parametrize(
    ("environment", "path"),
    [
        pytest.param({"GPUTUI_CONFIG": "/a/b.toml", "XDG_CONFIG_HOME": "/x"}, "/a/b.toml", id="named"),
        pytest.param({"XDG_CONFIG_HOME": "/x"}, "/x/gputui/config.toml", id="XDG_CONFIG_HOME"),
        pytest.param({"XDG_CONFIG_HOME": "x"}, "/home/ana/.config/gputui/config.toml", id="relative is ignored"),
        pytest.param({}, "/home/ana/.config/gputui/config.toml", id="home"),
    ],
)
def test_the_settings_file_path_follows_xdg(
    monkeypatch: pytest.MonkeyPatch, environment: Mapping[str, str], path: str
) -> None:
    monkeypatch.setenv("HOME", "/home/ana")
    assert str(settings_path(environment)) == path


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("\nthme = 'nord'", ["line 2", "no setting 'thme'", "Did you mean theme?"], id="unknown"),
        pytest.param("zzz = 1", ["line 1", "There are: interval, theme"], id="unknown, no near match"),
        pytest.param("theme = 'nrod'", ["line 1: theme", "'nrod'", "Did you mean nord?"], id="unknown theme"),
        pytest.param("interval = 0", ["line 1: interval", "0.1 to 3600"], id="interval too short"),
        pytest.param("interval = nan", ["line 1: interval"], id="interval nan"),
        pytest.param("interval = true", ["line 1: interval"], id="interval true"),
        pytest.param("look_pause = 5", ["line 1: look_pause", "1ms to 100ms, or off"], id="pause too long"),
        pytest.param("look_pause = '0.5ms'", ["line 1: look_pause", "1ms to 100ms"], id="pause too short"),
        pytest.param("look_pause = false", ["line 1: look_pause", "or off"], id="pause false"),
        pytest.param("# mouse\nmouse = 3", ["line 2: mouse", "true or false", "not 3"], id="not a boolean"),
        pytest.param("hot_c = 85.5", ["line 1: hot_c", "whole number"], id="not a whole number"),
        pytest.param("hot_c = true", ["line 1: hot_c", "whole number"], id="true is not a number"),
        pytest.param("columns = []", ["line 1: columns", "at least one"], id="no columns"),
        pytest.param("columns = [\n 'pid',\n 'comand']", ["line 1: columns", "command?"], id="unknown column"),
        pytest.param("[theme]\nname = 1", ["line 2", "no table [theme]", "[keys]"], id="table"),
        pytest.param("[other]", ["line 1", "no table [other]"], id="empty table"),
        pytest.param("[keys]\n'app.quit' = 3", ["line 2", "app.quit", "a key or a list of keys"], id="key"),
        pytest.param("[keys]\nquit = []", ["line 2", "quit"], id="no keys"),
        pytest.param("theme = nord", ["not TOML", "line 1", 'theme = "nord"'], id="not TOML"),
        pytest.param("theme = 'nord'\ntheme = 'nord'\n", ["not TOML", "line 2"], id="twice"),
    ],
)
def test_an_invalid_setting_is_reported_with_its_line(file: Path, text: str, says: list[str]) -> None:
    with pytest.raises(UsageError) as error:
        load(file, text)
    assert str(file) in str(error.value)
    assert [part for part in says if part not in str(error.value)] == []


def test_an_invalid_variable_is_reported(file: Path) -> None:
    with pytest.raises(UsageError, match=r"GPUTUI_INTERVAL should be .* not 'fast'"):
        load(file, "", GPUTUI_INTERVAL="fast")


def test_an_invalid_flag_is_reported() -> None:
    with pytest.raises(UsageError, match=r"--theme should be .*Did you mean gruvbox\?"):
        flagged(Settings(), "--theme", "gruvbux")


def test_a_missing_named_file_is_an_error(file: Path) -> None:
    with pytest.raises(UsageError, match="GPUTUI_CONFIG names, does not exist"):
        load(file)


def test_an_unreadable_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        load(tmp_path)


def test_a_file_that_is_not_text_is_an_error(file: Path) -> None:
    file.write_bytes(b"theme = '\xff'")
    with pytest.raises(UsageError, match="not UTF-8"):
        load(file)


@pytest.mark.parametrize(("raw", "seconds"), [("2", 2.0), ("500ms", 0.5), ("2s", 2.0), ("1min", 60.0), (" 1.5 S", 1.5)])
def test_an_interval_may_have_a_unit(raw: str, seconds: float) -> None:
    assert flagged(Settings(), "--interval", raw).interval_s == seconds


QUIT_AND_PAUSE = {"app.quit": ["q"], "app.pause": ["p"]}


def test_keys_are_assigned_by_action(file: Path) -> None:
    settings = load(file, "[keys]\n\"app.quit\" = ['x', 'ctrl+x']\n'app.pause' = 'P'\n")
    assert keymap(settings, QUIT_AND_PAUSE, key_name) == {"app.quit": "x,ctrl+x", "app.pause": "P"}


def test_a_key_for_an_unknown_action_is_reported_with_its_line() -> None:
    settings = Settings(keys=(KeyChange("app.qiut", ("x",), "config.toml, line 3"),))
    with pytest.raises(UsageError, match=r"config.toml, line 3: .*'app.qiut'.*Did you mean app.quit\?"):
        keymap(settings, QUIT_AND_PAUSE, key_name)


@pytest.mark.parametrize(
    "key", ["q", "Q", "!", "+", "é", "f2", "ctrl+g", "shift+tab", "question_mark", "pageup", "space", "comma"]
)
def test_keys_that_a_terminal_sends_are_accepted(key: str) -> None:
    assert key_name(key)


@pytest.mark.parametrize("key", ["no such key", "ctlr+q", "pgup", "ctrl+", "f99", ",", "ctrl+,", " "])
def test_an_unknown_key_is_reported_with_its_line(key: str) -> None:
    """With a misspelt key for quitting, nobody could quit the monitor."""
    settings = Settings(keys=(KeyChange("app.quit", (key,), "config.toml, line 3"),))
    with pytest.raises(UsageError, match=r"config\.toml, line 3: there is no key"):
        keymap(settings, QUIT_AND_PAUSE, key_name)


def test_a_key_for_two_actions_of_one_screen_is_reported_with_its_line() -> None:
    changes = (
        KeyChange("app.quit", ("x",), "config.toml, line 3"),
        KeyChange("app.pause", ("x",), "config.toml, line 4"),
    )
    with pytest.raises(UsageError, match=r"line 4: the key 'x' is already that of 'app\.quit', on the same screen"):
        keymap(Settings(keys=changes), QUIT_AND_PAUSE, key_name, [{"app.quit", "app.pause"}])


def test_a_key_can_be_that_of_two_actions_on_different_screens() -> None:
    changes = (KeyChange("device.next", ("x",), ""), KeyChange("processes.tree", ("x",), ""))
    made = keymap(Settings(keys=changes), default_keys(GputuiApp), key_name, scopes(GputuiApp))
    assert made == {"device.next": "x", "processes.tree": "x"}


@pytest.mark.parametrize(
    ("action", "key", "other"),
    [
        ("app.pause", "q", "app.quit"),
        ("app.pause", "?", "app.help"),
        ("tensors.group", "d", "attach.device"),
        ("attach.look", "p", "app.pause"),
    ],
)
def test_a_key_that_another_action_has_by_itself_is_reported_with_its_line(action, key, other) -> None:
    settings = Settings(keys=(KeyChange(action, (key,), "config.toml, line 3"),))
    with pytest.raises(UsageError, match=rf"line 3: the key {re.escape(repr(key))} is already that of '{other}'"):
        keymap(settings, default_keys(GputuiApp), key_name, scopes(GputuiApp))


@pytest.mark.parametrize(
    "changes",
    [
        (KeyChange("app.quit", ("Q",), ""), KeyChange("actions.menu", ("q",), "")),
        (KeyChange("actions.menu", ("q",), ""), KeyChange("app.quit", ("Q",), "")),
        (KeyChange("replay.play", ("p", "f2"), ""),),
    ],
    ids=["an action that has another key now", "in the other order", "two actions that have it by themselves"],
)
def test_a_key_that_an_action_has_given_up_or_shares_by_itself_is_accepted(changes) -> None:
    made = keymap(Settings(keys=changes), default_keys(GputuiApp), key_name, scopes(GputuiApp))
    assert made == {change.action: ",".join(change.keys) for change in changes}


def test_every_theme_can_be_loaded() -> None:
    from textual.theme import BUILTIN_THEMES

    from gputui.ui.themes import THEMES as OWN_THEMES

    assert set(THEMES) <= set(BUILTIN_THEMES) | {theme.name for theme in OWN_THEMES}
