//! Hosts, links and switches in network namespaces
