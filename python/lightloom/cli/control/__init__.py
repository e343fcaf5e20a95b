"""The commands of ``lightloom control``: only ``apply`` and ``serve`` touch a switch."""
