"""Write the decision down as text: compose, shell, systemd, Kubernetes."""
