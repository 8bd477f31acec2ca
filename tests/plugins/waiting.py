"""Says at the start what somebody waits for: how many tests, in how many processes, how long, and what comes first."""

import pytest

SECONDS = {
    "attach": 0.7,
    "blackbox": 1.0,
    "check": 0.6,
    "explain": 0.03,
    "export": 0.1,
    "faults": 1.0,
    "fuzz": 0.6,
    "inject": 0.5,
    "probe": 0.3,
    "recording": 0.3,
    "reports": 3.5,
    "sources": 0.06,
    "terminal": 1.1,
    "trust": 0.8,
    "ui": 0.35,
    "whatif": 0.4,
}
"""What a test takes in the mean on a slow machine while another runs beside it; of other folders, next to nothing."""
SOON_S = 30.0
WITH_PYTORCH = {"attach", "blackbox", "check", "export", "inject", "probe", "reports", "trust", "whatif"}


def words(ids, processes):
    """The sentences, "" where it is not worth a word. `ids` are `tests/FOLDER/...`."""
    folders = [name.split("/")[1] for name in ids if name.count("/") > 1]
    seconds = sum(SECONDS.get(folder, 0.0) for folder in folders) / min(processes, 2)
    if seconds < SOON_S:
        return ""
    where = "1 process" if processes == 1 else f"{processes} processes"
    said = f"{len(ids)} tests in {where}: about {max(1, round(seconds / 60))} minutes on two idle cores."
    first = " Libraries of fake GPUs are compiled first, and PyTorch is imported."
    return said + first if WITH_PYTORCH & set(folders) else said


def say(config, ids, processes):
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter and config.get_verbosity() >= 0 and (said := words(ids, processes)):
        reporter.write_line(said)


def pytest_collection_finish(session):
    if not hasattr(session.config, "workerinput") and session.items:
        say(session.config, [item.nodeid for item in session.items], 1)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node, ids):
    """The workers find the same tests; the first to find them says so."""
    if node.gateway.id == "gw0":
        say(node.config, ids, node.config.option.numprocesses)
