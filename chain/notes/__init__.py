"""Signed notes (C2SP) and the slots that keep the newest."""
