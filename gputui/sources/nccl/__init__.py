"""NCCL's report about a job through RAS, a port on which every rank of NCCL 2.24 and newer answers for all ranks.

A question may end a job where NCCL has a fault. So `source` finds out first whose port it is and which NCCL answers
there, `versions` says which versions may be asked, and `client` and `decode` trust nothing that comes over the socket.
Where NCCL may not be asked, `lines` reads from outside in which lines the ranks on this machine are.
"""
