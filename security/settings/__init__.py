"""The settings of security, as typed values from Kafka's names. Wrong settings are refused with one sentence each."""
