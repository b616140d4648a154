"""How an order of filters is kept: one published algorithm per file behind `FilterOrder`."""
