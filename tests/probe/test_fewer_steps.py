"""With a tenth of the steps a look names the same, only later: counted, so the same on every machine."""

NAMED_WELL = 0.99
LOOKS_FOR_EACH = 12
"""How many times as many looks it may take."""


def named_after(looks):
    """How many looks it took until nearly all had a name."""
    return next(number for number, look in enumerate(looks, 1) if look["share"] >= NAMED_WELL)


def test_each_look_brings_the_rest_nearer_and_what_is_known_stays_known(run_program):
    programs = run_program("fewer_steps.py")
    assert len(programs) == 7
    for program, (usual, tenth) in programs.items():
        assert named_after(tenth) <= LOOKS_FOR_EACH * named_after(usual), program
        for looks in (usual, tenth):
            assert [look["lost"] for look in looks if look["lost"]] == [], program
            named = [look["kept"] > 0 for look in looks]
            assert named == sorted(named), program
            assert named[-1], program
