"""Space-time diagrams of message-passing nodes, part by part; `storyboard` puts them together.

scene: what there is to draw; scale: time to pixels; sheet: where lanes lie and what is taken; phrases: what is said.
"""
