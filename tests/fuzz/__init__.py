"""Fuzz tests of everything that reads foreign bytes: a reader may raise only its own errors."""
