"""The filter's language."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputui.errors import UsageError
from gputui.explain.filtering import DURATION, SIZE, Predicate, compared_fields
from gputui.explain.filtering import parse_filter as parse_for
from gputui.model.machine.process import Identity
from gputui.model.reading import Absent
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.monitor.process_fields import PROCESS_FIELDS
from gputui.ui.drawing.monitor.process_rows import View, process_rows_of
from gputui.ui.drawing.monitor.processes import PROCESS_TABLE_COLUMNS
from tests.ui import scenes

ROWS = process_rows_of(scenes.node(), View(), Appearance())
RANKS, OTHERS, REST = [2010, 2020, 2030, 2040], [3000, 3100, 3100, 3200], [None]


def parse_filter(text: str) -> Predicate | None:
    return parse_for(text, PROCESS_FIELDS)


def pids_matching(text: str) -> list[int | None]:
    predicate = parse_filter(text)
    return [row.process.pid if row.process else None for row in ROWS if predicate is None or predicate(row)]


@pytest.mark.parametrize(
    ("text", "pids"),
    [
        ("", RANKS + OTHERS + REST),
        ("   ", RANKS + OTHERS + REST),
        ("python", [*RANKS, 3000, 3100, 3100]),
        ("PYTHON Ana", RANKS),
        ("train 2020", [2020]),
        ("user==ana", RANKS),
        ("user=ana", RANKS),
        ("USER==ana", None),
        ("user==ANA", RANKS),
        ("user!=ana", [3000, 3100, 3100]),
        ("command~vllm", [3000]),
        ("command!~python", []),
        ('command~"--port 8000"', [3000]),
        ("pid==3100", [3100, 3100]),
        ("pid>3000", [3100, 3100, 3200]),
        ("pid>=3000 and pid<=3100", [3000, 3100, 3100]),
        ("gpu==6", [3100, 3200]),
        ("device==7", REST),
        ("mem>10GiB", [*RANKS, 3000]),
        ("mem > 10 GiB", None),
        ("mem>10g", [*RANKS, 3000]),
        ("memory<=2048MiB", [3100, 3200, None]),
        ("mem<1.5GiB", [3100]),
        ("sm==0", [3100]),
        ("cpu>50", RANKS),
        ("cpu<1", [3100, 3100]),
        ("cpu>50%", RANKS),
        ("rss>1GiB", [*RANKS, 3000, 3100, 3100]),
        ("rank==0", [2010]),
        ("rank>1", [2030, 2040]),
        ("state==zombie", [3200]),
        ("mem>0", RANKS + OTHERS + REST),
        ("share>=25%", [*RANKS, 3000]),
        ("workers==2", RANKS),
        ("time>30min and time<2h", [*RANKS, 3000, 3100, 3100]),
        ("gpu>=6", [3100, 3200, None]),
        ("type==C", RANKS + OTHERS),
        ("probe==yes", [2010]),
        ("not user==ana", [*OTHERS, None]),
        ("! user==ana", [*OTHERS, None]),
        ("not (user==ana or user==carla)", [3000, 3200, None]),
        ("user==llm or user==ana and rank==0", [2010, 3000]),
        ("(user==llm or user==ana) and rank==0", [2010]),
        ("user == ana and mem > 10GiB", RANKS),
    ],
)
def test_a_filter_selects_the_matching_rows(text, pids):
    if pids is None:
        with pytest.raises(UsageError):
            parse_filter(text)
    else:
        assert pids_matching(text) == pids


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("usr==ana", "has no field 'usr'"),
        ("user==", "ends where a value after user== is expected"),
        ("user==ana and", "ends where a field such as command or user is expected"),
        ("user==ana ben", "has 'ben' where `and` or `or` is expected"),
        ("mem>lots", "needs a number after mem"),
        ("mem>10QiB", "needs a number after mem with a unit (KiB, MiB, GiB or TiB), not '10QiB'"),
        ("mem>1000", "needs a unit after mem>1000: KiB, MiB, GiB or TiB."),
        ("rss==5", "needs a unit after rss==5"),
        ("mem>50%", "needs a number after mem with a unit"),
        ("time>90", "needs a unit after time>90: s, min, h or d."),
        ("rank==first", "needs a number after rank, not 'first'"),
        ("(user==ana", "lacks a closing parenthesis"),
        ("user==ana)", "has ')' where"),
        ("mem (>3)", "needs a comparison"),
        ("user ana==", "needs a comparison such as == or > after 'user'"),
        ('command=="unfinished', "has an error at"),
        ("==", "has no field '=='"),
        ("not =", "has no field"),
    ],
)
def test_an_invalid_filter_raises_a_sentence_about_the_error(text, sentence):
    with pytest.raises(UsageError) as error:
        parse_filter(text)
    assert sentence in str(error.value)


@settings(deadline=None)
@given(st.text(alphabet="abmemuser<>=!~()\"' 0123456789.GiBandornot%\\\x00宽", max_size=40))
def test_any_text_gives_a_filter_or_a_sentence(text):
    try:
        predicate = parse_filter(text)
    except UsageError as error:
        sentence = str(error)
    else:
        sentence = "The filter is understood."
        assert predicate is None or all(predicate(row) in (True, False) for row in ROWS)
    assert sentence.startswith("The filter ")


def test_an_unknown_value_matches_no_comparison():
    nothing = Absent("insufficient permissions")
    odd = scenes.process(
        1, user=nothing, command=nothing, cpu_percent=nothing, rss_bytes=nothing,
        uses=(scenes.use(0, 1, used_bytes=nothing, sm_percent=nothing),),
    )  # fmt: skip
    (row,) = process_rows_of(scenes.snapshot(scenes.devices(1), (odd,)), View(), Appearance())
    unknown = [name for name, field in PROCESS_FIELDS.by_name.items() if field(row) is None]
    assert unknown
    for name, sign in product(unknown, ["==", "!=", ">", "<=", "~", "!~"]):
        assert not parse_filter(f"{name}{sign}0")(row), (name, sign)


@pytest.mark.parametrize(("unit", "bytes_each"), SIZE.units.items())
def test_units(unit, bytes_each):
    process = scenes.process(1, uses=(scenes.use(0, 1, used_bytes=3 * bytes_each),))
    (row,) = process_rows_of(scenes.snapshot(scenes.devices(1), (process,)), View(), Appearance())
    assert parse_filter(f"mem>=3{unit.upper()}")(row)
    assert not parse_filter(f"mem>3{unit}")(row)


@pytest.mark.parametrize(("unit", "seconds_each"), DURATION.units.items())
def test_units_of_time(unit, seconds_each):
    scene = scenes.snapshot(scenes.devices(1))
    process = scenes.process(1, identity=Identity(1, scene.time - 3 * seconds_each))
    (row,) = process_rows_of(scenes.snapshot(scenes.devices(1), (process,)), View(), Appearance())
    assert parse_filter(f"time>=3{unit}")(row)
    assert not parse_filter(f"time>3{unit}")(row)


def test_every_column_of_the_process_table_is_a_field():
    for column in PROCESS_TABLE_COLUMNS:
        PROCESS_FIELDS.named(column.name)


def test_the_fields_that_a_filter_compares():
    assert compared_fields("user==ana and (memory>1GiB or not mem<1MiB)", PROCESS_FIELDS) == ("user", "mem")
    assert compared_fields("some words", PROCESS_FIELDS) == ()
