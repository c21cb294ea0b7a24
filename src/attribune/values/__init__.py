"""What is done with new, added and removed values: their posterior, enrolment and removal, panels, next texts."""
