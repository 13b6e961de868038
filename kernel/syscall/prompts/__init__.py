"""What of a workspace stands in what its process shows a model."""
