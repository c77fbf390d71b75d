"""Mini-bucket methods: elimination with the size of messages bounded, so that what comes out is a bound."""
