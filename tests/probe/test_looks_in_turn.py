"""What looks show one after another: what is known stays known, and what changes is seen."""


def test_each_look_names_what_is_there_at_its_moment(run_program):
    outcomes = run_program("looks_in_turn.py")
    assert len(outcomes) >= 15
    assert {name: outcome for name, outcome in outcomes.items() if outcome} == {}


def test_what_exceptions_keep_is_named_after_the_one_that_is_there(run_program):
    outcomes = run_program("kept_exceptions.py")
    assert len(outcomes) >= 5
    assert {name: outcome for name, outcome in outcomes.items() if outcome} == {}
