"""Widgets of the attach screens: `map_view` and `inspector` of the map, `tensor_list`, and `step_page`."""
