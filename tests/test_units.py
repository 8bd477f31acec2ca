"""Numbers as people read them."""

import pytest

from gputui.units import GIB, KIB, MIB, format_bytes, format_bytes_short, format_duration, format_rate


@pytest.mark.parametrize(
    ("count", "whole", "short"),
    [
        (0, "0 B", "0B"),
        (1023, "1023 B", "1023B"),
        (KIB, "1.0 KiB", "1.0K"),
        (20 * MIB, "20.0 MiB", "20.0M"),
        (1023 * MIB, "1023 MiB", "1023M"),
        (int(79.6 * GIB), "79.6 GiB", "79.6G"),
        (int(99.96 * GIB), "100 GiB", "100G"),
        (2048 * GIB, "2.0 TiB", "2.0T"),
        (-MIB, "-1.0 MiB", "-1.0M"),
    ],
)
def test_bytes(count, whole, short):
    assert (format_bytes(count), format_bytes_short(count)) == (whole, short)


@pytest.mark.parametrize("count", [1024**power * factor - 1 for power in range(1, 5) for factor in (1, 10, 100, 1000)])
def test_short_bytes_fit_five_cells(count):
    assert len(format_bytes_short(count)) <= 5


def test_a_rate_ends_with_per_second():
    assert format_rate(1.4 * GIB) == "1.4 GiB/s"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0s"),
        (0, "0s"),
        (59.9, "59s"),
        (60, "1:00"),
        (187, "3:07"),
        (3599, "59:59"),
        (3600, "1h00m"),
        (18_120, "5h02m"),
        (86_399, "23h59m"),
        (86_400, "1d00h"),
        (12 * 86_400 + 4 * 3600, "12d04h"),
    ],
)
def test_a_duration_has_its_two_largest_units(seconds, text):
    assert format_duration(seconds) == text
