"""Scheduling strategies for continuous queries [chakravarthy2009]: who answers soon, who keeps queues short."""
