"""The program that runs in the user's Python: `python run.py MODULE:FUNCTION REPORT [ARGUMENTS]`.

REPORT is a file for the answer, ARGUMENTS what the function is called with by name, as JSON.

What the user's code prints goes to standard error.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
from typing import Any

STEPS = 2


def _load_package() -> Any:
    """The package that this file is in, under a name of its own: nothing of gputui need be importable here."""
    folder = os.path.dirname(os.path.abspath(__file__))
    name = "_gputui_rehearsal"
    spec = importlib.util.spec_from_file_location(
        name, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[name] = package
    spec.loader.exec_module(package)
    return importlib.import_module(name + ".rehearse")


def main() -> int:
    """Run the steps; the report is JSON, with "problem" in place of the rest where they could not be run."""
    function, path, *rest = sys.argv[1:]
    arguments: dict[str, Any] = json.loads(rest[0]) if rest else {}
    sys.path[0] = os.getcwd()
    sys.stdout = sys.stderr
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    try:
        import torch  # noqa: F401
    except ImportError as error:
        report: dict[str, Any] = {"problem": "no_torch", "words": str(error)}
    else:
        report = _load_package().report_of(function, arguments, STEPS)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(report, file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
