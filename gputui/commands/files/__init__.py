"""What was kept in files: recordings, black boxes, snapshots."""
