"""How processes are reached: through a probe that is there or put in, here or on another machine."""
