"""What counts as a leak: memory that rises and is not given back.

`thresholds`: from which numbers on; `counters`: allocated memory rises beyond the up and down of a step; `variables`:
containers and variables that keep more and more, as `growing` describes them; `kinds`: more and more tensors of a kind;
`findings`: the finding about a leak; `one_look`: the finding before there are looks enough.
"""
