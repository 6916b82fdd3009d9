"""How rows enter: the lanes that entry points share, and what these say to each other."""
