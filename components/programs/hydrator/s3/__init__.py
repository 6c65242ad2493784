"""Amazon S3 with the standard library: signing, credentials of the pod, objects, multipart uploads, the copy."""
