"""What a cluster needs beside the program: see docs/export.md."""
