"""Widgets of the attach screens: `map_view`, `tensor_list`, and `step_page`."""
