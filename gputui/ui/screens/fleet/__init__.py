"""The screen of many machines (`screen`), and how a program on one of them takes the terminal for a while (`visit`)."""
