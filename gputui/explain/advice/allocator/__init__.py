"""Findings about the allocator: free memory that is cached or stuck, and requests that failed."""
