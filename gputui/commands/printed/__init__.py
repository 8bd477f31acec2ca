"""What a command prints for people: sentences first, then tables, in lines of a given width."""
