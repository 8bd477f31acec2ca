"""Screens: which widgets stand where, which keys do what."""
