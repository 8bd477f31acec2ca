"""The ranks of a job compared: which holds more or less memory than the others, and which keeps others waiting."""
