"""Sweeps of many cuts of networks, their results, and the page that shows them."""
