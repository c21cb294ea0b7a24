"""What of training only methods of the lab need."""
