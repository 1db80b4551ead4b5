"""Tables and figures of the papers that the library implements."""
