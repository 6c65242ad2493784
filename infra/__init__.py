"""The program, the jobs, the command line and the sandbox: everything that has effects."""
