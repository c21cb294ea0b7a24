"""What one training leaves: recipe, folder, results, card and verdict."""
