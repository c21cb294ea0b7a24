"""The tables of the pages, one module for each page or two that belong together."""
