//! P4Runtime client: pushes pipelines, admits and removes jobs
