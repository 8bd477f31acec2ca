"""What gputui costs, in ratios against a peer or a budget, measured in one run."""
