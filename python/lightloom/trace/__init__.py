"""Records what training programs communicate, and reads such recordings."""
