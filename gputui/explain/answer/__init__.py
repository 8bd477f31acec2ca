"""What the attach screens say first: the verdict in one sentence, and the findings that do not come and go.

`verdict` makes the sentence; `steady` keeps findings on screen; `answers` computes both once for each look.
"""
