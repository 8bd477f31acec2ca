"""Tests that gputui does no harm in other people's training jobs and on shared machines."""
