"""An attached process: what its probe sends, what is known about its memory at a moment (`moment`), and over time."""
