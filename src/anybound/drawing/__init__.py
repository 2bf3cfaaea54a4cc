"""Numbers as HTML and SVG, which pages and notebooks show as they are; knows numbers only."""
