"""NCCL's own word about a job, by RAS: a port on which every rank of NCCL 2.24 and newer answers for all ranks.

A question may end a job where NCCL has a fault, so `place` finds out first whose port it is and which NCCL answers
there, `versions` says which versions may be asked, and `client` trusts nothing that comes over the socket. Where
it may not be asked, `lines` reads from outside where the ranks here are.
"""
