"""A trace replayed through the modelled allocator.

`recorded` is what a what-if starts from; `layout`: the allocator's blocks where the trace begins; `replay` runs it.
"""
