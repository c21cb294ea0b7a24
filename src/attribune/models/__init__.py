"""Models of a backbone, a method and a task: built, saved, loaded, used."""
