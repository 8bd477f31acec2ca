"""What is known about another process without touching it: its facts in /proc, its libraries, its Python frames."""
