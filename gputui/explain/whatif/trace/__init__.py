"""What the program asked for, out of a trace: the same under any settings.

`operations` are the requests; `parts`: what each is for; `scaling`: which depend on the batch; `beginning`: how the
program came to where the trace begins.
"""
