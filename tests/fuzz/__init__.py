"""What reads bytes of somebody else's, given bytes of nobody's: nothing but its own errors may come out."""
