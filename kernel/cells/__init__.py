"""Where processes run: cells, the links to them, and the engines that place them."""
