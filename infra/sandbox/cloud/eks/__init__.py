"""A simulated EKS: the API that boto3 sees, with AWS's checks, states and waiting times."""
