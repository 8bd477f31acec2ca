"""The list of tensors. `view`: the user's choices; `request`: builds the tree that they ask for; `tree`: its nodes."""
