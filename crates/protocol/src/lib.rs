//! Sans-IO endpoints of in-network aggregation: worker and parameter server
