"""Of looks one after another, most take from the last ones what these found alike."""


def test_a_brief_look_takes_only_what_lasts(run_program):
    outcomes = run_program("brief_looks.py")
    assert len(outcomes) >= 19
    assert {name: outcome for name, outcome in outcomes.items() if outcome} == {}
