"""Model calls: the prompt within its budget, the reply, the record, and the condensation of old messages."""
