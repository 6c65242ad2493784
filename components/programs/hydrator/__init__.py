"""The program that fills a weight volume: downloads, proves, resumes, copies to S3. Standard library only.

It runs in a stock Python image in the pod of a Job. What it needs is told by the environment (see `settings`), what it
says goes to standard output, to `.dormouse/progress.json` in the model's folder and, at the end, to the termination log.
"""

ENTRY = "components.programs.hydrator.main:main"
"""What `bundle` starts."""
MODULES = ("components.programs.hydrator", "serving.weights", "serving.errors")
"""What `bundle` puts in."""
