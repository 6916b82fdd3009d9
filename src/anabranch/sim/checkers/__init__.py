"""What must hold, one guarantee per module. Each is shown to catch a protocol that breaks it."""
