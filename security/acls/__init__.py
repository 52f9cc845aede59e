"""Access rules: what a rule says, which rules match a request, and why a request is allowed or denied."""
