//! Numbers to terminal, HTML, JSON, CSV and Markdown. Computes nothing that analysis could.
