"""What counts as a leak: memory that rises and is not given back.

`thresholds`: from which numbers on; `counters`: allocated memory rises beyond the up and down of a step; `variables`: a
container or a variable keeps more and more, which `growing` describes; `kinds`: tensors of a kind become more;
`findings`: what is said about it; `one_look`: what is said before there are looks enough.
"""
