"""The attached processes: what is known of each, and where the user looks."""
