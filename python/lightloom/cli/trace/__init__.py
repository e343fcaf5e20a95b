"""``lightloom trace``: what training programs communicate."""
