"""What one training leaves: recipe, folder, card, and what is done with it later."""
