# `gputui run` puts this file's folder in front of PYTHONPATH, so that every Python of the program loads the probe when
# it starts. It then imports the sitecustomize that the interpreter would have found without it. Any Python, however
# old, must be able to read this file.
import os
import sys


def _step_aside():
    here = os.path.dirname(__file__)
    sys.path[:] = [folder for folder in sys.path if folder != here]


def _load_probe():
    # By path: gputui may be installed in another environment, whose other packages must not become importable here.
    from _frozen_importlib_external import PathFinder  # never a file of the program's

    above = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))
    spec = PathFinder.find_spec("gputui", [above])
    module = type(sys)("gputui")
    module.__spec__, module.__loader__, module.__package__ = spec, spec.loader, "gputui"
    module.__file__, module.__path__ = spec.origin, spec.submodule_search_locations
    sys.modules["gputui"] = module
    spec.loader.exec_module(module)
    import gputui.probe


_step_aside()
if sys.version_info >= (3, 8):
    try:
        _load_probe()
    except Exception:  # noqa: BLE001, S110 - no memory or descriptor is left, say: the program runs without the probe
        pass

# If there is no other sitecustomize, or it fails, `site` handles the exception as it would have without this file.
del sys.modules["sitecustomize"]
import sitecustomize
