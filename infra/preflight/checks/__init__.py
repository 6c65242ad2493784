"""The questions, by what they ask about; each takes a Question and returns findings."""
