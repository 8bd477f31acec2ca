"""The allocator's map: how segments are drawn, and the blocks in them: live, free, and stuck.

`segments` draws the rows; `cells` decides the look of each character, `groups` what a row stands for; `zoom` draws one
segment; `inspector` tells about the block under the cursor.
"""
