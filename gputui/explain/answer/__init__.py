"""What the attach screens say first: the verdict in one sentence, and the findings that do not come and go.

`verdict` chooses what is said, and `sentences` says it; `steady` keeps findings on screen; `answers` computes both once
for each look.
"""
