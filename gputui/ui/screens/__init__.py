"""Screens: which widgets they have, and what their keys do."""
