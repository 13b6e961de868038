"""A turn as a value, and the pipeline of stages that it goes through."""
