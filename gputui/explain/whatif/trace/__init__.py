"""What a program requested, read from a trace: the requests are the same under any settings.

`operations` has the requests, `parts` says what each is for, `scaling` which of them depend on the batch, `beginning`
how the program came to where the trace begins.
"""
