"""The attached processes: the data of each, and which part of it is on screen."""
