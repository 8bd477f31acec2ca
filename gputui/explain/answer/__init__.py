"""What the attach screens say first: the verdict in one sentence, and findings that do not flicker.

`verdict` chooses what is said, `sentences` words it, `estimates` fills in what looks had no time for, `served` words it
for inference servers; `steady` keeps findings on screen; `answers` computes verdict and findings and remembers them.
"""
