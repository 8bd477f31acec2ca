"""The ranks of a job compared: which holds more or less memory, which keeps others waiting, what NCCL says."""
