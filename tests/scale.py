"""How much longer than usual the tests marked `long` run: their counts are multiplied by $GPUTUI_TEST_SCALE."""

import os

SCALE = int(os.environ.get("GPUTUI_TEST_SCALE", "1"))
