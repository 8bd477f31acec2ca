"""`gputui`, forked:  command_line.py WORD..."""

import sys

from gputui.cli import main

if __name__ == "__main__":
    sys.argv[0] = "gputui"
    sys.exit(main())
