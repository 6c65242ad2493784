"""The control plane's loops: each brings one kind of object nearer to what is asked, and says when to look again."""
