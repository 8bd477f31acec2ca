"""What was seen of attached processes, kept in a file and looked at again."""
