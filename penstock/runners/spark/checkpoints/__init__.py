"""The directory of an application: what is remembered in it, who may use it, and how it is repaired."""
