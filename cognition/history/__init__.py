"""A session's records as a model may see them: repaired, aged, without secrets, within their budget."""
