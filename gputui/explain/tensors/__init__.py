"""The list of tensors. `view`: what the user chose; `request` builds it; `tree` adds up the blocks."""
