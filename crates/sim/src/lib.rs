//! Virtual-time network that drives endpoints and P4 program under one seed
