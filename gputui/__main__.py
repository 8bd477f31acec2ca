"""`python -m gputui` is `gputui`."""

import sys

from gputui.cli import main

if __name__ == "__main__":
    sys.exit(main())
