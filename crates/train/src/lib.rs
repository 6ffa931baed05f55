//! Data-parallel training example on the handwritten-digits data set
