"""Files to documents, documents to token ids, token ids to batches."""
