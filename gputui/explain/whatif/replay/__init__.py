"""A trace replayed through the modelled allocator.

`recorded` prepares a trace, `layout` finds the blocks that existed before its first event, `replay` runs it.
"""
