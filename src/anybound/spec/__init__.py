"""What is to be shown: properties as unsafe sets, and the problems they pose to a method."""
