"""What a command prints for people: sentences first, then tables, in lines of a given width.

A file for each command; `page` is for headings, paragraphs and what the screens draw, in colour.
"""
