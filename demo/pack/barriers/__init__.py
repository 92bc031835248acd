"""Barriers from point-to-point messages: a pack of exercises for rankup."""
