"""The only readers and writers of model files, and the one way anything is written."""
