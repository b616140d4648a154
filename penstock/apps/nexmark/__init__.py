"""Nexmark: six queries over people, auctions and bids whose state stays flat because the streams say what is finished."""
