"""What a run learned: evaluation, comparison, diagnostics, explanations."""
