"""Dialogs over a screen: a menu and a confirmation."""
