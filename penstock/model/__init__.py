"""Values: schema, batch, elements, patterns, windows, declarations. No behaviour that needs state."""
