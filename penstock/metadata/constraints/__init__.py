"""What the process behind the events of a stream allows, and which event patterns can therefore never match."""
