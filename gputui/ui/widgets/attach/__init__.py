"""Widgets of the attach screens."""
