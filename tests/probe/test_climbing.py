"""Keepers are found from the tensors up, remembered without keeping anything alive, and read on from look to look."""


def test_the_keeper_is_named_and_what_is_known_stays_known(run_program):
    outcomes = run_program("climbing.py")
    assert len(outcomes) >= 14
    assert {name: outcome for name, outcome in outcomes.items() if outcome} == {}
