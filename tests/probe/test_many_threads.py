"""Looks at programs of many threads: counted, so the same on every machine."""


def test_many_threads_make_looks_little_dearer_and_lose_no_name(run_program):
    outcomes = run_program("many_threads.py")
    assert len(outcomes) == 8
    assert {name: outcome for name, outcome in outcomes.items() if outcome} == {}
