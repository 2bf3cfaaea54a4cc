"""Images to train on: the digits that come with scikit-learn, and data sets read from a folder."""
