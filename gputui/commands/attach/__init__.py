"""`gputui attach`: puts a probe into processes, shows what it tells, and takes it out again."""
