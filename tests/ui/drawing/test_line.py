"""Lines before styling: fitting, wrapping, joining, and replacing characters that must not reach a terminal."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from gputui.ui.drawing.ascii import as_ascii
from gputui.ui.drawing.line import fit, fit_clauses, fit_line, join, printable, spread, text_of, width_of, wrap


@pytest.mark.parametrize(
    ("text", "width", "align", "fitted"),
    [
        pytest.param("ab", 4, "<", "ab  ", id="left"),
        pytest.param("ab", 4, ">", "  ab", id="right"),
        pytest.param("ab", 5, "^", " ab  ", id="middle"),
        pytest.param("abcdef", 4, "<", "abc…", id="cut"),
        pytest.param("abcdef", 1, "<", "a", id="cut to one"),
        pytest.param("abc", 0, "<", "", id="no room"),
        pytest.param("宽宽宽", 6, "<", "宽宽宽", id="wide characters that fit"),
        pytest.param("宽宽宽", 4, "<", "宽 …", id="wide characters cut in the middle of one"),
        pytest.param("宽", 1, "<", " ", id="half a wide character"),
        pytest.param("e\u0301e\u0301", 3, "<", "e\u0301e\u0301 ", id="combining characters take no cell"),
        pytest.param("a\nb", 4, "<", "a?b ", id="control characters"),
        pytest.param("", 3, "<", "   ", id="empty"),
    ],
)
def test_fit(text, width, align, fitted):
    assert fit(text, width, align) == fitted


@settings(deadline=None)
@given(st.text(), st.integers(0, 40), st.sampled_from("<>^"))
def test_fit_always_takes_exactly_its_width(text, width, align):
    fitted = fit(text, width, align)
    assert cell_len(fitted) == width
    assert printable(fitted) == fitted


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[2J", "?[2J"),
        ("a\tb\nc\rd", "a?b?c?d"),
        ("\x9b1m \x7f", "?1m ?"),
        ("\u202etxt", "?txt"),
        ("zero\u200bwidth", "zero?width"),
        ("caf\udce9", "caf?"),
        ("naïve 宽 🔥", "naïve 宽 🔥"),
        ("e\u0301\u0302" * 3, "e\u0301\u0302" * 3),
        ("e" + "\u0301" * 4000 + "x" + "\u0301" * 9, "e" + "\u0301" * 4 + "x" + "\u0301" * 4),
        ("\x1b" * 6, "??????"),
    ],
)
def test_printable(text, shown):
    assert printable(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [("plain", "plain"), ("┌─┐", "+-+"), ("50 °C", "50  C"), ("宽…", "??~"), ("e\u0301", "e"), ("█▏▲", "#|^")],
)
def test_as_ascii_keeps_the_width(text, shown):
    assert as_ascii(text) == shown
    assert len(shown) == cell_len(text)


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("one two three", 7, ["one two", "three"]),
        ("one two three", 100, ["one two three"]),
        ("incomprehensibility", 5, ["incom", "prehe", "nsibi", "lity"]),
        ("宽宽 宽", 4, ["宽宽", "宽"]),
        ("", 5, [""]),
    ],
)
def test_wrap(text, width, lines):
    assert text_of(wrap(text, width)).split("\n") == lines


@pytest.mark.parametrize(
    ("width", "text"),
    [(12, "left   right"), (10, "left right"), (9, "left"), (3, "left")],
    ids=["room to spare", "exact fit", "no room for the right", "no room for the left"],
)
def test_spread(width, text):
    assert text_of((spread([("left", "plain")], [("right", "dim")], width),)) == text


@pytest.mark.parametrize(
    ("pieces", "width", "shown"),
    [
        ([("abc", "plain"), ("def", "dim"), ("ghi", "dim")], 5, (("abc", "plain"), ("de", "dim"))),
        ([("宽宽", "plain"), ("ab", "dim")], 5, (("宽宽", "plain"), ("a", "dim"))),
        ([("宽宽宽", "plain"), ("ab", "dim")], 5, (("宽宽 ", "plain"),)),
        ([("\x1b[2J", "plain")], 3, (("?[2", "plain"),)),
    ],
    ids=["cut in a piece", "wide characters", "cut in a wide character", "control characters"],
)
def test_a_line_is_cut_by_cells(pieces, width, shown):
    assert fit_line(pieces, width) == shown


def test_join_merges_neighbours_of_the_same_role_and_drops_empty_pieces():
    pieces = [("", "dim"), ("a", "plain"), ("b", "plain"), ("", "poor"), ("c", "plain"), ("d", "dim")]
    assert join(pieces) == (("abc", "plain"), ("d", "dim"))
    assert width_of(join(pieces)) == 4


@pytest.mark.parametrize(
    ("width", "shown"), [(16, "one, two, three"), (14, "one, two"), (8, "one, two"), (3, "one"), (2, "one, two, three")]
)
def test_a_sentence_ends_at_a_comma_where_it_does_not_fit(width, shown):
    assert fit_clauses("one, two, three", width) == shown
