# What `gputui run` puts in front of PYTHONPATH: loads the probe at the start of every Python in the program, then steps
# aside for the sitecustomize that the interpreter would have found without it. Any Python, however old, must be able
# to read this file.
import os
import sys


def _step_aside():
    here = os.path.dirname(__file__)
    sys.path[:] = [folder for folder in sys.path if folder != here]


def _load_probe():
    # By its place: gputui may be installed in another environment, whose packages must not become importable here.
    from importlib.machinery import PathFinder  # `importlib.util` would cost 3 ms

    above = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))
    spec = PathFinder.find_spec("gputui", [above])
    module = type(sys)("gputui")
    module.__spec__, module.__loader__, module.__package__ = spec, spec.loader, "gputui"
    module.__file__, module.__path__ = spec.origin, spec.submodule_search_locations
    sys.modules["gputui"] = module
    spec.loader.exec_module(module)
    import gputui.probe


_step_aside()
if sys.version_info >= (3, 10):
    _load_probe()

# An error in here, and the absence of a sitecustomize, arrive where they would have: `site` deals with both.
del sys.modules["sitecustomize"]
import sitecustomize
